package testdb

import "testing"

func TestSubtestsOfOneNameHaveFilesOfTheirOwn(t *testing.T) {
	for range 2 { // the second is called …#01, and a # ends a name in a DSN
		t.Run("again", func(t *testing.T) {
			t.Run("#", func(t *testing.T) {
				db := Open(t, SQLite, Empty)
				if err := db.Exec("CREATE TABLE only_here (id INTEGER)").Error; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

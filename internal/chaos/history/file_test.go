package history

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestReadGivesWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	log, err := Create(dir, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	want := Event{Kind: Start, At: 5, Proc: "worker-1", Ref: "r", Job: 7, Token: "t", Attempt: 2}
	log.Write(want)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, []Event{want}) {
		t.Errorf("Read = %+v, %v", got, err)
	}
}

func TestReadForgivesATornLastLineOnly(t *testing.T) {
	for text, want := range map[string]int{
		`{"k":"start"}` + "\n" + `{"k":"en`:           1,
		`{"k":"sta` + "\n" + `{"k":"end"}` + "\n":     -1,
		`{"k":"start"}` + "\n" + `{"k":"end"}` + "\n": 2,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.jsonl"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := Read(dir)
		if want < 0 && err == nil || want >= 0 && (err != nil || len(got) != want) {
			t.Errorf("Read of %q = %d events, %v; want %d", text, len(got), err, want)
		}
	}
}

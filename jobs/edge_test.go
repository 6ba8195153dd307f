package jobs // a claim from the edge has no exported name

import (
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/models"
)

// A claim from the edge that gets too little claims from the start too. What the
// first statement has claimed is not lost when the second one fails.
func TestFailureOfTheSecondHalfOfAClaimKeepsTheFirst(t *testing.T) {
	db := testdb.Open(t, testdb.Postgres) // no other has edges
	fill(t, db)
	for _, text := range []string{
		"CREATE FUNCTION refuse() RETURNS trigger AS $$BEGIN RAISE EXCEPTION 'refused'; END$$ LANGUAGE plpgsql",
		"CREATE TRIGGER refuse BEFORE UPDATE ON queue_jobs FOR EACH ROW WHEN (OLD.id <= 60) EXECUTE FUNCTION refuse()",
	} {
		if err := db.Exec(text).Error; err != nil {
			t.Fatal(err)
		}
	}
	var sixtieth models.Job
	if err := db.First(&sixtieth, 60).Error; err != nil {
		t.Fatal(err)
	}
	c := newBenchClaimer(t, db)
	c.edge = &edge{lastOf([]*models.Job{&sixtieth}), time.Now().Add(time.Hour)}
	claimed, err := c.Claim(t.Context(), hundred)
	if err != nil || len(claimed) != 40 {
		t.Errorf("Claim = %d jobs, %v; want the 40 behind the edge", len(claimed), err)
	}
	if claimed, err = c.Claim(t.Context(), hundred); err == nil {
		t.Errorf("the next claim = %d jobs and no error", len(claimed))
	}
	if err := db.Exec("DROP TRIGGER refuse ON queue_jobs").Error; err != nil {
		t.Fatal(err)
	}
	if claimed, err = c.Claim(t.Context(), hundred); err != nil || len(claimed) != 60 {
		t.Errorf("the claim after it = %d jobs, %v; want 60", len(claimed), err)
	}
}

// Both halves of a claim are one claim: of all that is pending, by priority and age.
func TestClaimFromTheEdgeFindsWhatCameInBeforeIt(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db *gorm.DB) {
		fill(t, db)
		var fiftieth models.Job
		if err := db.First(&fiftieth, 50).Error; err != nil {
			t.Fatal(err)
		}
		c := newBenchClaimer(t, db)
		c.edge = &edge{lastOf([]*models.Job{&fiftieth}), time.Now().Add(time.Hour)}
		claimed, err := c.Claim(t.Context(), 80)
		if err != nil || len(claimed) != 80 {
			t.Fatalf("Claim = %d jobs, %v; want 80", len(claimed), err)
		}
		for i := range claimed[1:] {
			if inOrder(&claimed[i], &claimed[i+1]) >= 0 {
				t.Errorf("job %d is before job %d", claimed[i].ID, claimed[i+1].ID)
			}
		}
		rest, err := c.Claim(t.Context(), hundred)
		if err != nil || len(rest) != 20 {
			t.Errorf("the next claim = %d jobs, %v; want the other 20", len(rest), err)
		}
	})
}

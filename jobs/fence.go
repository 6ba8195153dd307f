package jobs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/gormjobs/gormjobs/internal/dialect"
	"github.com/gormjobs/gormjobs/models"
)

// fenceKey tells one run of one job from every other.
type fenceKey struct {
	id    uint64
	token string
}

func (o outcome) fence() fenceKey { return fenceKey{o.id, o.token} }

// fence holds for the rows that are still reserved by the claims of batch. The
// list of ids stands first for PostgreSQL, which plans one index scan for it and
// one for every pair otherwise.
func fence(tx *gorm.DB, batch []outcome) *gorm.DB {
	ids := make([]uint64, len(batch))
	pairs := make([][]any, len(batch))
	for i, o := range batch {
		ids[i] = o.id
		pairs[i] = []any{o.id, o.token}
	}
	return tx.Model(&models.Job{}).Clauses(dialect.ByID(tx)).
		Where("id IN ?", ids).Where(dialect.Pairs(tx, "(id, reserved_by)", pairs)).Where("state = 'processing'")
}

// lockHeld locks the rows of batch that are still held, and returns their
// outcomes. SQLite has one writer, so there all are returned and the write decides.
func lockHeld(tx *gorm.DB, batch []outcome) ([]outcome, error) {
	if !dialect.LocksRows(tx) {
		return batch, nil
	}
	var free []models.Job
	if err := fence(tx, batch).Clauses(skipLocked()).Select("id", "reserved_by").Order("id").Find(&free).Error; err != nil {
		return nil, fmt.Errorf("lock the rows: %w", err)
	}
	return pick(batch, free), nil
}

// pick returns the outcomes whose fences are those of rows. The token is compared
// again: a row that was written without it is not won, and its write rolled back.
func pick(batch []outcome, rows []models.Job) []outcome {
	in := make(map[fenceKey]bool, len(rows))
	for _, r := range rows {
		in[fenceKey{r.ID, r.ReservedBy}] = true
	}
	picked := make([]outcome, 0, len(rows))
	for _, o := range batch {
		if in[o.fence()] {
			picked = append(picked, o)
		}
	}
	return picked
}

// updateHeld is lockHeld and update in one statement, for PostgreSQL. Its text is
// the same for any number of ids, so that it is prepared once, and the tokens are
// looked up in an object: a list of pairs is compared with every row of it. The
// ids are an array and no join, so that no plan can begin with all processing rows.
func updateHeld(tx *gorm.DB, group []outcome) ([]outcome, error) {
	ids, tokens := make([]string, len(group)), make(map[string]string, len(group))
	byID := make(map[uint64]outcome, len(group))
	for n, o := range group {
		byID[o.id] = o
		ids[n] = strconv.FormatUint(o.id, 10)
		tokens[ids[n]] = o.token
	}
	object, err := json.Marshal(tokens)
	if err != nil {
		return nil, err
	}
	set, args := assignments(columnsOf(tx, group[0]))
	table := tx.Statement.Quote(models.JobsTable(tx))
	args = append(args, "{"+strings.Join(ids, ",")+"}", string(object), string(object))
	const guard = "state = 'processing' AND reserved_by = CAST(? AS jsonb) ->> CAST(id AS text)"
	rows, err := tx.Raw("UPDATE "+table+" SET "+set+" WHERE id = ANY(ARRAY(SELECT id FROM "+table+
		" WHERE id = ANY(CAST(? AS bigint[])) AND "+guard+" ORDER BY id FOR UPDATE SKIP LOCKED)) AND "+guard+
		" RETURNING id", args...).Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	won := make([]outcome, 0, len(group))
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		won = append(won, byID[id])
	}
	return won, rows.Err()
}

// assignments is the text of a SET, in the order of the names: one text for one
// verb.
func assignments(set map[string]any) (text string, args []any) {
	var b strings.Builder
	for n, name := range slices.Sorted(maps.Keys(set)) {
		if n > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name + " = ")
		if e, ok := set[name].(clause.Expr); ok {
			b.WriteString(e.SQL)
			args = append(args, e.Vars...)
		} else {
			b.WriteByte('?')
			args = append(args, set[name])
		}
	}
	return b.String(), args
}

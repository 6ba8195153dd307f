package jobs

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

func (o *outcome) fence() fenceKey { return fenceKey{o.id, o.token} }

// fewTokens returns the tokens of the outcomes if these are of few claims, so that
// looking at the rows of each costs less than comparing every row with its own
// token; else nil.
func fewTokens(batch []*outcome) []string {
	tokens := make([]string, 0, 8)
	for _, o := range batch {
		if slices.Contains(tokens, o.token) {
			continue
		}
		if len(tokens) == cap(tokens) {
			return nil
		}
		tokens = append(tokens, o.token)
	}
	if len(tokens) > 1+len(batch)/32 {
		return nil
	}
	return tokens
}

// oneToken tells whether all outcomes are of one claim.
func oneToken(batch []*outcome) bool {
	return !slices.ContainsFunc(batch, func(o *outcome) bool { return o.token != batch[0].token })
}

func idsOf(batch []*outcome) []uint64 {
	ids := make([]uint64, len(batch))
	for i, o := range batch {
		ids[i] = o.id
	}
	return ids
}

// fence holds for the rows that are still reserved by the claims of batch.
func fence(tx *gorm.DB, batch []*outcome) *gorm.DB {
	q := tx.Model(&models.Job{}).Clauses(dialect.ByID(tx)).Where(dialect.IDIn(tx, idsOf(batch))).Where("state = 'processing'")
	if oneToken(batch) {
		return q.Where("reserved_by = ?", batch[0].token)
	}
	pairs := make([][]any, len(batch))
	for i, o := range batch {
		pairs[i] = []any{o.id, o.token}
	}
	return q.Where(dialect.Pairs(tx, "(id, reserved_by)", pairs))
}

// lockHeld locks the rows of batch that are still held, and returns their
// outcomes. SQLite has one writer, so there all are returned and the write decides.
func lockHeld(tx *gorm.DB, batch []*outcome) ([]*outcome, error) {
	if !dialect.LocksRows(tx) {
		return batch, nil
	}
	tokens := make([]string, len(batch))
	for i, o := range batch {
		tokens[i] = o.token
	}
	slices.Sort(tokens)
	held, err := pick(batch, tx.Model(&models.Job{}).Clauses(dialect.ByID(tx), skipLocked()).Select("id", "reserved_by").
		Where(dialect.IDIn(tx, idsOf(batch))).Where("state = 'processing' AND reserved_by IN ?", slices.Compact(tokens)).
		Order("id"))
	if err != nil {
		return nil, fmt.Errorf("lock the rows: %w", err)
	}
	return held, nil
}

// pick returns the outcomes of batch, which is ordered by id, whose fences are those
// of the ids and tokens that query returns. It reads by hand: GORM's way from a row
// into a struct is much of the work.
func pick(batch []*outcome, query *gorm.DB) ([]*outcome, error) {
	rows, err := query.Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	picked := make([]*outcome, 0, len(batch))
	var id uint64
	var token sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&id, &token); err != nil {
			return nil, err
		}
		picked = appendHeld(picked, batch, id, string(token))
	}
	slices.SortFunc(picked, func(a, b *outcome) int { return cmp.Compare(a.id, b.id) })
	return picked, rows.Err()
}

// appendHeld appends the outcomes of batch whose fence is this. The token is compared
// again: a row that was found or written without it is not won.
func appendHeld(to, batch []*outcome, id uint64, token string) []*outcome {
	i, _ := slices.BinarySearchFunc(batch, id, func(o *outcome, id uint64) int { return cmp.Compare(o.id, id) })
	for ; i < len(batch) && batch[i].id == id; i++ {
		if batch[i].token == token {
			to = append(to, batch[i])
		}
	}
	return to
}

// updateHeld is lockHeld and update in one statement, for PostgreSQL. A row that is
// locked stays what it was when its fence was looked at.
func updateHeld(tx *gorm.DB, group []*outcome) ([]*outcome, error) {
	many := len(group) >= dialect.Many
	columns, where := dialect.Locked(tx, many)
	selects, args, err := lockingSelects(tx, columns, group, many)
	if err != nil {
		return nil, err
	}
	set, values := assignments(columnsOf(tx, group[0]))
	write := "WITH locked AS MATERIALIZED (" + selects + ") UPDATE " + tx.Statement.Quote(models.JobsTable(tx)) + " SET " + set + " WHERE " + where
	args = append(args, values...)
	if countable(group) {
		done := tx.Exec(write, args...)
		if done.Error != nil {
			return nil, done.Error
		}
		return counted(tx, group, done.RowsAffected)
	}
	return pick(group, tx.Raw(write+" RETURNING id, reserved_by", args...))
}

// countable tells whether the number of rows that a write of group has changed says
// which they are, or the rows themselves do: those of a completion have its token and
// are completed. A thousand rows that come back are as much work as a thousand that
// are read.
func countable(group []*outcome) bool { return group[0].verb == complete }

// counted returns the outcomes of a group whose write changed so many rows: all, or
// none, or some of a countable one.
func counted(tx *gorm.DB, group []*outcome, changed int64) ([]*outcome, error) {
	switch {
	case changed == int64(len(group)):
		return group, nil
	case changed == 0:
		return nil, nil
	case !dialect.UpdateReturns(tx): // where all rows were locked before
		return nil, fmt.Errorf("%w: locked %d, wrote %d", errTorn, len(group), changed)
	}
	won, err := pick(group, tx.Model(&models.Job{}).Select("id", "reserved_by").Where(dialect.IDIn(tx, idsOf(group))).Where("state = 'completed'"))
	if err != nil {
		return nil, fmt.Errorf("read which jobs are completed: %w", err)
	}
	return won, nil
}

// lockingSelects selects columns of the rows that group still holds and that nobody
// else has locked, and locks them: one SELECT for each claim, where they are few.
// Else the tokens are looked up in an object: a list of pairs is compared with
// every row of it.
func lockingSelects(tx *gorm.DB, columns string, group []*outcome, many bool) (text string, args []any, err error) {
	table := tx.Statement.Quote(models.JobsTable(tx))
	var b strings.Builder
	add := func(ids []uint64, fence, token string) {
		if b.Len() > 0 {
			b.WriteString(" UNION ALL ")
		}
		in := dialect.IDIn(tx, ids)
		if len(group) > 1 { // one text, however the ids are spread over the claims
			in = dialect.IDInList(tx, ids, many)
		}
		// In a subquery: a SELECT that locks cannot be part of a UNION by itself.
		b.WriteString("SELECT " + columns + " FROM (SELECT " + columns + " FROM " + table + " WHERE " + in.SQL +
			" AND state = 'processing' AND reserved_by = " + fence + " ORDER BY id FOR UPDATE SKIP LOCKED) AS one")
		args = append(append(args, in.Vars...), token)
	}
	tokens := fewTokens(group)
	for _, token := range tokens {
		var ids []uint64
		for _, o := range group {
			if o.token == token {
				ids = append(ids, o.id)
			}
		}
		add(ids, "?", token)
	}
	if tokens == nil {
		object, err := tokensByID(group)
		if err != nil {
			return "", nil, err
		}
		add(idsOf(group), "CAST(? AS jsonb) ->> CAST(id AS text)", object)
	}
	return b.String(), args, nil
}

func tokensByID(group []*outcome) (string, error) {
	tokens := make(map[uint64]string, len(group))
	for _, o := range group {
		tokens[o.id] = o.token
	}
	object, err := json.Marshal(tokens)
	return string(object), err
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

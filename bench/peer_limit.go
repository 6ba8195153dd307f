package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// "limit" is no library: hand-written SQL that does the least a row-per-job queue with kept rows must do.
//   LIMIT_BATCH    rows a claim takes (default 1000)
//   LIMIT_WORKERS  connections that claim and complete, each on its own (default 2)
//   LIMIT_VARIANT  two (default): claim is a status update in its own transaction, completion is another
//                  one: rows stay locked while they are worked, one status update, one transaction
//                  merge: each transaction completes the last batch and claims the next
//                  move: a small ready table that claims delete from; completion updates the kept row once
//   LIMIT_NOTIFY=1 inserts NOTIFY and workers LISTEN (PostgreSQL): the floor of wake-up latency

func envInt(k string, d int) int {
	if s := os.Getenv(k); s != "" {
		n, err := strconv.Atoi(s)
		must(err)
		return n
	}
	return d
}

func init() {
	peers["limit"] = func(db, dsn, config string) (Peer, error) {
		v := os.Getenv("LIMIT_VARIANT")
		if v == "" {
			v = "two"
		}
		b, w := envInt("LIMIT_BATCH", 1000), envInt("LIMIT_WORKERS", 2)
		if db == "postgres" {
			return &limitPG{base: dsn, variant: v, batch: b, workers: w, notify: os.Getenv("LIMIT_NOTIFY") == "1"}, nil
		}
		return &limitMy{base: dsn + "&interpolateParams=true", variant: v, batch: b, workers: w}, nil
	}
}

// ---- PostgreSQL ----

type limitPG struct {
	base, dsn, variant string
	batch, workers     int
	notify             bool
	aged               int // completed rows put there first
	pool               *pgxpool.Pool
}

func (p *limitPG) Setup(ctx context.Context) (err error) {
	if p.dsn, err = pgFresh(ctx, p.base, "limit"); err != nil {
		return err
	}
	if err = pgExec(ctx, p.dsn, `CREATE TABLE jobs (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL, kind text NOT NULL, priority smallint NOT NULL DEFAULT 1,
		state smallint NOT NULL DEFAULT 0, attempt smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL DEFAULT 25,
		payload jsonb NOT NULL, run_at timestamptz NOT NULL DEFAULT now(), created_at timestamptz NOT NULL DEFAULT now(),
		claimed_at timestamptz, finished_at timestamptz, worker text)`); err != nil {
		return err
	}
	if p.variant == "move" {
		err = pgExec(ctx, p.dsn, `CREATE TABLE ready (id bigint PRIMARY KEY, queue text NOT NULL, priority smallint NOT NULL DEFAULT 1, run_at timestamptz NOT NULL DEFAULT now())`,
			`CREATE INDEX ON ready (queue, priority, run_at, id)`, `CREATE TABLE running (id bigint PRIMARY KEY, worker text, claimed_at timestamptz NOT NULL DEFAULT now())`)
	} else {
		err = pgExec(ctx, p.dsn, `CREATE INDEX ON jobs (queue, priority, run_at, id) WHERE state = 0`)
	}
	if err != nil {
		return err
	}
	p.pool, err = pgPool(ctx, p.dsn, 24)
	return err
}

func (p *limitPG) ins() string {
	s := `INSERT INTO jobs (queue, kind, payload) VALUES ('default','bench',$1)`
	if p.variant == "move" {
		s = `WITH j AS (` + s + ` RETURNING id) INSERT INTO ready (id, queue) SELECT id, 'default' FROM j`
	}
	if p.notify {
		s = `WITH x AS (` + s + ` RETURNING id) SELECT pg_notify('jobs','') FROM x`
	}
	return s
}

func (p *limitPG) Insert(ctx context.Context, a Args) error {
	_, err := p.pool.Exec(ctx, p.ins(), a.bytes())
	return err
}

func (p *limitPG) Bulk(ctx context.Context, as []Args) error {
	if p.variant == "move" {
		ps := make([][]byte, len(as))
		for i := range as {
			ps[i] = as[i].bytes()
		}
		_, err := p.pool.Exec(ctx, `WITH j AS (INSERT INTO jobs (queue, kind, payload) SELECT 'default','bench', x::jsonb FROM unnest($1::text[]) x RETURNING id)
			INSERT INTO ready (id, queue) SELECT id, 'default' FROM j`, toStrings(ps))
		return err
	}
	_, err := p.pool.CopyFrom(ctx, pgx.Identifier{"jobs"}, []string{"queue", "kind", "payload"},
		pgx.CopyFromSlice(len(as), func(i int) ([]any, error) { return []any{"default", "bench", as[i].bytes()}, nil }))
	return err
}

func toStrings(bs [][]byte) []string {
	s := make([]string, len(bs))
	for i := range bs {
		s[i] = string(bs[i])
	}
	return s
}

func (p *limitPG) Biz(ctx context.Context, order int64, a Args) error {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err = tx.Exec(ctx, "INSERT INTO orders (id, customer, total_cents) VALUES ($1,$2,$3)", order, "c", 100); err != nil {
		return err
	}
	if os.Getenv("LIMIT_NOJOB") == "" { // set: what the transaction costs with no job
		if _, err = tx.Exec(ctx, p.ins(), a.bytes()); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

const (
	pgClaim = `UPDATE jobs SET state=1, attempt=attempt+1, claimed_at=now(), worker=$1 FROM (SELECT id FROM jobs WHERE state=0 AND queue='default' AND run_at<=now()
		ORDER BY priority, run_at, id LIMIT $2 FOR UPDATE SKIP LOCKED) c WHERE jobs.id=c.id RETURNING jobs.id, jobs.payload`
	pgLock  = `SELECT id, payload FROM jobs WHERE state=0 AND queue='default' AND run_at<=now() ORDER BY priority, run_at, id LIMIT $1 FOR UPDATE SKIP LOCKED`
	pgDone  = `UPDATE jobs SET state=2, finished_at=now() WHERE id = ANY($1::bigint[]) AND state=1`
	pgDone1 = `UPDATE jobs SET state=2, attempt=attempt+1, claimed_at=now(), worker=$2, finished_at=now() WHERE id = ANY($1::bigint[])`
	pgMove  = `WITH c AS (DELETE FROM ready WHERE id IN (SELECT id FROM ready WHERE queue='default' AND run_at<=now() ORDER BY priority, run_at, id LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id),
		r AS (INSERT INTO running (id, worker) SELECT id, $1 FROM c) SELECT jobs.id, jobs.payload FROM jobs JOIN c USING (id)`
	pgMoved = `WITH d AS (DELETE FROM running WHERE id = ANY($1::bigint[]) RETURNING id, claimed_at, worker)
		UPDATE jobs SET state=2, attempt=attempt+1, claimed_at=d.claimed_at, worker=d.worker, finished_at=now() FROM d WHERE jobs.id=d.id`
)

type pgq interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func pgTake(ctx context.Context, q pgq, h Handler, sql string, args ...any) ([]int64, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	var ts []int64
	for rows.Next() {
		var id int64
		var b []byte
		if err := rows.Scan(&id, &b); err != nil {
			return nil, err
		}
		ids, ts = append(ids, id), append(ts, decode(b))
	}
	for _, t := range ts {
		h(t)
	}
	return ids, rows.Err()
}

func (p *limitPG) Start(ctx context.Context, conc int, h Handler) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	wake := make(chan struct{}, 1)
	if p.notify {
		c, err := pgx.Connect(ctx, p.dsn)
		if err != nil {
			cancel()
			return nil, err
		}
		if _, err = c.Exec(ctx, "LISTEN jobs"); err != nil {
			cancel()
			return nil, err
		}
		go func() {
			defer c.Close(context.Background())
			for {
				if _, err := c.WaitForNotification(ctx); err != nil {
					return
				}
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		}()
	}
	var wg sync.WaitGroup
	for w := range p.workers {
		name := fmt.Sprint("w", w)
		wg.Go(func() {
			conn, err := p.pool.Acquire(ctx)
			if err != nil {
				return
			}
			defer conn.Release()
			var last []int64
			for ctx.Err() == nil {
				var ids []int64
				var err error
				switch p.variant {
				case "two":
					if ids, err = pgTake(ctx, conn, h, pgClaim, name, p.batch); err == nil && len(ids) > 0 {
						_, err = conn.Exec(ctx, pgDone, ids)
					}
				case "move":
					if ids, err = pgTake(ctx, conn, h, pgMove, name, p.batch); err == nil && len(ids) > 0 {
						_, err = conn.Exec(ctx, pgMoved, ids)
					}
				case "one":
					var tx pgx.Tx
					if tx, err = conn.Begin(ctx); err != nil {
						break
					}
					if ids, err = pgTake(ctx, tx, h, pgLock, p.batch); err == nil && len(ids) > 0 {
						_, err = tx.Exec(ctx, pgDone1, ids, name)
					}
					if err == nil {
						err = tx.Commit(ctx)
					} else {
						_ = tx.Rollback(context.Background())
					}
				case "merge":
					var tx pgx.Tx
					if tx, err = conn.Begin(ctx); err != nil {
						break
					}
					if len(last) > 0 {
						_, err = tx.Exec(ctx, pgDone, last)
					}
					var fired []int64
					if err == nil {
						ids, err = pgTake(ctx, tx, func(t int64) { fired = append(fired, t) }, pgClaim, name, p.batch)
					}
					if err == nil {
						err = tx.Commit(ctx)
					} else {
						_ = tx.Rollback(context.Background())
					}
					if err == nil {
						last = ids
						for _, t := range fired {
							h(t)
						}
					}
				}
				if err != nil && ctx.Err() == nil {
					must(err)
				}
				if len(ids) == 0 && len(last) == 0 {
					d := time.Millisecond
					if p.notify {
						d = time.Second
					}
					select {
					case <-wake:
					case <-ctx.Done():
					case <-time.After(d):
					}
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }, nil
}

func (p *limitPG) Left(ctx context.Context) (int64, error) {
	if p.variant == "move" {
		return pgInt(ctx, p.dsn, "SELECT (SELECT count(*) FROM ready)+(SELECT count(*) FROM running)")
	}
	return pgInt(ctx, p.dsn, fmt.Sprintf("SELECT count(*) FROM jobs WHERE id>%d AND state<>2", p.aged))
}

func (p *limitPG) Age(ctx context.Context, n int) error {
	p.aged = n
	return pgExec(ctx, p.dsn, fmt.Sprintf(`INSERT INTO jobs (queue, kind, state, attempt, payload, claimed_at, finished_at, worker)
		SELECT 'default','bench',2,1, json_build_object('t',0,'id',g,'pad','%s')::jsonb, now(), now(), 'w' FROM generate_series(1,%d) g`, pad, n))
}

func (p *limitPG) Preload(ctx context.Context, n int) error {
	if err := fill(ctx, n, p.Bulk); err != nil {
		return err
	}
	return pgSettle(ctx, p.dsn)
}

func (p *limitPG) Statements(ctx context.Context) (int64, int64, error) {
	return pgStatements(ctx, p.dsn)
}
func (p *limitPG) Close() {
	if p.pool != nil {
		p.pool.Close()
	}
}

// ---- MySQL and MariaDB ----

type limitMy struct {
	base, dsn, variant string
	batch, workers     int
	db                 *sql.DB
}

func (p *limitMy) Setup(ctx context.Context) (err error) {
	if p.dsn, err = myFresh(ctx, p.base, "limit"); err != nil {
		return err
	}
	if p.db, err = mySQL(p.dsn, 24); err != nil {
		return err
	}
	_, err = p.db.ExecContext(ctx, `CREATE TABLE jobs (id bigint AUTO_INCREMENT PRIMARY KEY, queue varchar(64) NOT NULL, kind varchar(128) NOT NULL, priority tinyint NOT NULL DEFAULT 1,
		state tinyint NOT NULL DEFAULT 0, attempt smallint NOT NULL DEFAULT 0, max_attempts smallint NOT NULL DEFAULT 25, payload json NOT NULL,
		run_at datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), created_at datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), claimed_at datetime(6), finished_at datetime(6), worker varchar(64),
		KEY (queue, state, priority, run_at, id)) ENGINE=InnoDB`)
	if err == nil && p.variant == "move" {
		for _, q := range []string{"ALTER TABLE jobs DROP KEY queue",
			"CREATE TABLE ready (id bigint PRIMARY KEY, queue varchar(64) NOT NULL, priority tinyint NOT NULL DEFAULT 1, run_at datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY (queue, priority, run_at, id)) ENGINE=InnoDB",
			"CREATE TABLE running (id bigint PRIMARY KEY, worker varchar(64), claimed_at datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE=InnoDB"} {
			if _, err = p.db.ExecContext(ctx, q); err != nil {
				return err
			}
		}
	}
	return err
}

const myIns = `INSERT INTO jobs (queue, kind, payload) VALUES `

func (p *limitMy) Insert(ctx context.Context, a Args) error {
	if p.variant == "move" {
		return p.Bulk(ctx, []Args{a})
	}
	_, err := p.db.ExecContext(ctx, myIns+"('default','bench',?)", string(a.bytes()))
	return err
}

func (p *limitMy) Bulk(ctx context.Context, as []Args) error {
	args := make([]any, len(as))
	for i := range as {
		args[i] = string(as[i].bytes())
	}
	q := myIns + strings.TrimSuffix(strings.Repeat("('default','bench',?),", len(as)), ",")
	if p.variant != "move" {
		_, err := p.db.ExecContext(ctx, q, args...)
		return err
	}
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	res, err := tx.ExecContext(ctx, q, args...)
	if err != nil {
		return err
	}
	id, _ := res.LastInsertId() // of the first row; one statement's ids are consecutive
	if _, err = tx.ExecContext(ctx, "INSERT INTO ready (id, queue) SELECT id, queue FROM jobs WHERE id BETWEEN ? AND ?", id, id+int64(len(as))-1); err != nil {
		return err
	}
	return tx.Commit()
}

func (p *limitMy) Biz(ctx context.Context, order int64, a Args) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err = tx.ExecContext(ctx, "INSERT INTO orders (id, customer, total_cents) VALUES (?,?,?)", order, "c", 100); err != nil {
		return err
	}
	if os.Getenv("LIMIT_NOJOB") == "" {
		if _, err = tx.ExecContext(ctx, myIns+"('default','bench',?)", string(a.bytes())); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func in(ids []int64) string {
	var b strings.Builder
	b.WriteByte('(')
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatInt(id, 10))
	}
	b.WriteByte(')')
	return b.String()
}

func (p *limitMy) Start(ctx context.Context, conc int, h Handler) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	rc := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	take := func(tx *sql.Tx) (ids, ts []int64, err error) {
		rows, err := tx.QueryContext(ctx, "SELECT id, payload FROM jobs WHERE queue='default' AND state=0 AND run_at<=now(6) ORDER BY priority, run_at, id LIMIT ? FOR UPDATE SKIP LOCKED", p.batch)
		if err != nil {
			return nil, nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			var b sql.RawBytes
			if err := rows.Scan(&id, &b); err != nil {
				return nil, nil, err
			}
			ids, ts = append(ids, id), append(ts, decode(b))
		}
		return ids, ts, rows.Err()
	}
	exec := func(tx *sql.Tx, qs ...string) error {
		for _, q := range qs {
			if _, err := tx.ExecContext(ctx, q); err != nil {
				return err
			}
		}
		return nil
	}
	move := func(name string) (ids []int64, err error) { // claim from the small table, complete the kept rows once
		tx, err := p.db.BeginTx(ctx, rc)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback()
		rows, err := tx.QueryContext(ctx, "SELECT id FROM ready WHERE queue='default' AND run_at<=now(6) ORDER BY priority, run_at, id LIMIT ? FOR UPDATE SKIP LOCKED", p.batch)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var id int64
			if err = rows.Scan(&id); err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		if err = rows.Err(); err != nil || len(ids) == 0 {
			return nil, err
		}
		list := in(ids)
		if err = exec(tx, "DELETE FROM ready WHERE id IN "+list, "INSERT INTO running (id, worker) SELECT id, '"+name+"' FROM jobs WHERE id IN "+list); err != nil {
			return nil, err
		}
		var ts []int64
		if rows, err = tx.QueryContext(ctx, "SELECT payload FROM jobs WHERE id IN "+list); err != nil {
			return nil, err
		}
		for rows.Next() {
			var b sql.RawBytes
			if err = rows.Scan(&b); err != nil {
				return nil, err
			}
			ts = append(ts, decode(b))
		}
		if err = rows.Err(); err == nil {
			err = tx.Commit()
		}
		if err != nil {
			return nil, err
		}
		for _, t := range ts {
			h(t)
		}
		done, err := p.db.BeginTx(ctx, rc)
		if err != nil {
			return nil, err
		}
		defer done.Rollback()
		if err = exec(done, "UPDATE jobs JOIN running USING (id) SET jobs.state=2, jobs.attempt=jobs.attempt+1, jobs.claimed_at=running.claimed_at, jobs.worker=running.worker, jobs.finished_at=now(6) WHERE jobs.id IN "+list,
			"DELETE FROM running WHERE id IN "+list); err != nil {
			return nil, err
		}
		return ids, done.Commit()
	}
	step := func(name string, last []int64) (ids []int64, err error) {
		if p.variant == "move" {
			return move(name)
		}
		tx, err := p.db.BeginTx(ctx, rc)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback()
		if len(last) > 0 {
			if _, err = tx.ExecContext(ctx, "UPDATE jobs SET state=2, finished_at=now(6) WHERE state=1 AND id IN "+in(last)); err != nil {
				return nil, err
			}
		}
		ids, ts, err := take(tx)
		if err != nil {
			return nil, err
		}
		if len(ids) > 0 {
			set := "state=1, attempt=attempt+1, claimed_at=now(6), worker='" + name + "'"
			if p.variant == "one" {
				set = "state=2, attempt=attempt+1, claimed_at=now(6), finished_at=now(6), worker='" + name + "'"
			}
			if _, err = tx.ExecContext(ctx, "UPDATE jobs SET "+set+" WHERE id IN "+in(ids)); err != nil {
				return nil, err
			}
		}
		if err = tx.Commit(); err != nil {
			return nil, err
		}
		for _, t := range ts {
			h(t)
		}
		return ids, nil
	}
	for w := range p.workers {
		name := fmt.Sprint("w", w)
		wg.Go(func() {
			var last []int64
			for ctx.Err() == nil {
				ids, err := step(name, last)
				if err == nil {
					last = nil
					switch {
					case p.variant == "merge":
						last = ids
					case p.variant == "two" && len(ids) > 0:
						for {
							if _, err = p.db.ExecContext(ctx, "UPDATE jobs SET state=2, finished_at=now(6) WHERE state=1 AND id IN "+in(ids)); err == nil || !strings.Contains(err.Error(), "1213") {
								break
							}
						}
					}
				}
				if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "1213") { // 1213: deadlock, run again
					must(err)
				}
				if len(ids) == 0 && len(last) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }, nil
}

func (p *limitMy) Left(ctx context.Context) (int64, error) {
	if p.variant == "move" {
		return sqlInt(ctx, p.db, "SELECT (SELECT count(*) FROM ready)+(SELECT count(*) FROM running)")
	}
	return sqlInt(ctx, p.db, "SELECT count(*) FROM jobs WHERE queue='default' AND state IN (0,1)")
}

func (p *limitMy) Age(ctx context.Context, n int) error {
	for n > 0 {
		k := min(n, 5000)
		as := make([]any, k)
		for i := range as {
			as[i] = string(newArgs(0).bytes())
		}
		if _, err := p.db.ExecContext(ctx, "INSERT INTO jobs (queue, kind, state, attempt, payload, claimed_at, finished_at, worker) VALUES "+
			strings.TrimSuffix(strings.Repeat("('default','bench',2,1,?,now(6),now(6),'w'),", k), ","), as...); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

func (p *limitMy) Preload(ctx context.Context, n int) error {
	if err := fill(ctx, n, p.Bulk); err != nil {
		return err
	}
	return mySettle(ctx, p.db, "jobs")
}

func (p *limitMy) Statements(ctx context.Context) (int64, int64, error) {
	return myStatements(ctx, p.db)
}
func (p *limitMy) Close() {
	if p.db != nil {
		p.db.Close()
	}
}

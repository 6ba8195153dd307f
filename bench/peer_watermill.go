package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
)

// watermill: its queue schema (one row a message, acked flag), the nearest it has to a job queue.
// watermill-log: its default schema (an append-only log and one offset a consumer group): no row state at all.
func init() {
	for _, log := range []bool{false, true} {
		name := "watermill"
		if log {
			name = "watermill-log"
		}
		peers[name] = func(db, dsn, config string) (Peer, error) {
			return &wmPeer{name: name, base: dsn, pg: db == "postgres", best: config == "best", log: log}, nil
		}
	}
}

type wmPeer struct {
	name, base, dsn string
	pg, best, log   bool
	aged            int
	db              *sql.DB
	pub             message.Publisher
	adapter         wsql.SchemaAdapter
	offsets         wsql.OffsetsAdapter
}

func (p *wmPeer) Setup(ctx context.Context) (err error) {
	batch := 0 // its default, 100
	if p.best {
		batch = 1000
	}
	if p.pg {
		if p.dsn, err = pgFresh(ctx, p.base, p.name); err != nil {
			return err
		}
		p.db, err = pgSQL(p.dsn, 30)
		if p.log {
			p.adapter, p.offsets = wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: batch}, wsql.DefaultPostgreSQLOffsetsAdapter{}
		} else {
			p.adapter, p.offsets = wsql.PostgreSQLQueueSchema{SubscribeBatchSize: batch}, wsql.PostgreSQLQueueOffsetsAdapter{}
		}
	} else {
		// no interpolateParams: it passes JSON as []byte, which MySQL refuses from an interpolated (binary) string
		if p.dsn, err = myFresh(ctx, p.base, p.name); err != nil {
			return err
		}
		p.db, err = mySQL(p.dsn, 30)
		if p.log {
			p.adapter, p.offsets = wsql.DefaultMySQLSchema{SubscribeBatchSize: batch}, wsql.DefaultMySQLOffsetsAdapter{}
		} else {
			p.adapter, p.offsets = wsql.MySQLQueueSchema{SubscribeBatchSize: batch}, wsql.MySQLQueueOffsetsAdapter{}
		}
	}
	if err != nil {
		return err
	}
	p.pub, err = wsql.NewPublisher(wsql.BeginnerFromStdSQL(p.db), wsql.PublisherConfig{SchemaAdapter: p.adapter, AutoInitializeSchema: true}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	s, err := p.sub()
	if err != nil {
		return err
	}
	defer s.Close()
	return s.SubscribeInitialize("q")
}

// Best: poll every 10 ms (default 1 s), batches of 1000 (default 100), no ack deadline.
func (p *wmPeer) sub() (*wsql.Subscriber, error) {
	c := wsql.SubscriberConfig{SchemaAdapter: p.adapter, OffsetsAdapter: p.offsets, InitializeSchema: true}
	if p.log {
		c.ConsumerGroup = "g"
	}
	if p.best {
		c.PollInterval = 10 * time.Millisecond
	}
	return wsql.NewSubscriber(wsql.BeginnerFromStdSQL(p.db), c, watermill.NopLogger{})
}

func wmMsg(a Args) *message.Message { return message.NewMessage(watermill.NewUUID(), a.bytes()) }

func (p *wmPeer) Insert(ctx context.Context, a Args) error { return p.pub.Publish("q", wmMsg(a)) }
func (p *wmPeer) Bulk(ctx context.Context, as []Args) error {
	ms := make([]*message.Message, len(as))
	for i := range as {
		ms[i] = wmMsg(as[i])
	}
	return p.pub.Publish("q", ms...)
}
func (p *wmPeer) Biz(ctx context.Context, order int64, a Args) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	q := "INSERT INTO orders (id, customer, total_cents) VALUES (?,?,?)"
	if p.pg {
		q = "INSERT INTO orders (id, customer, total_cents) VALUES ($1,$2,$3)"
	}
	if _, err = tx.ExecContext(ctx, q, order, "c", 100); err != nil {
		return err
	}
	pub, err := wsql.NewPublisher(wsql.TxFromStdSQL(tx), wsql.PublisherConfig{SchemaAdapter: p.adapter}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	if err = pub.Publish("q", wmMsg(a)); err != nil {
		return err
	}
	return tx.Commit()
}

// A subscriber delivers its batch one message at a time, and its FOR UPDATE has no SKIP LOCKED, so concurrency does nothing here:
// one subscriber, whatever conc says.
func (p *wmPeer) Start(ctx context.Context, conc int, h Handler) (func(), error) {
	ctx, cancel := context.WithCancel(ctx)
	s, err := p.sub()
	if err != nil {
		cancel()
		return nil, err
	}
	ch, err := s.Subscribe(ctx, "q")
	if err != nil {
		cancel()
		return nil, err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for m := range ch {
			h(decode(m.Payload))
			m.Ack()
		}
	})
	return func() { cancel(); s.Close(); wg.Wait() }, nil
}

func (p *wmPeer) Left(ctx context.Context) (int64, error) {
	q := fmt.Sprintf("SELECT count(*) FROM watermill_q WHERE acked = false AND `offset` > %d", p.aged)
	if p.pg {
		q = strings.ReplaceAll(q, "`", `"`)
	}
	if p.log {
		if p.pg {
			q = `SELECT (SELECT max("offset") FROM watermill_q) - (SELECT offset_acked FROM watermill_offsets_q)`
		} else {
			q = "SELECT (SELECT max(`offset`) FROM watermill_q) - (SELECT offset_acked FROM watermill_offsets_q)"
		}
	}
	return sqlInt(ctx, p.db, q)
}

func (p *wmPeer) Age(ctx context.Context, n int) error {
	if p.log {
		return ErrSkip
	}
	p.aged = n
	if p.pg {
		return pgExec(ctx, p.dsn, fmt.Sprintf(`INSERT INTO watermill_q (uuid, payload, metadata, acked) SELECT gen_random_uuid(), json_build_object('t',0,'id',g,'pad','%s'), '{}', true FROM generate_series(1,%d) g`, pad, n))
	}
	for n > 0 {
		k := min(n, 5000)
		as := make([]any, k)
		for i := range as {
			as[i] = string(newArgs(0).bytes())
		}
		if _, err := p.db.ExecContext(ctx, "INSERT INTO watermill_q (uuid, payload, metadata, acked) VALUES "+strings.TrimSuffix(strings.Repeat("(uuid(),?,'{}',true),", k), ","), as...); err != nil {
			return err
		}
		n -= k
	}
	return nil
}
func (p *wmPeer) Preload(ctx context.Context, n int) error {
	if err := fill(ctx, n, p.Bulk); err != nil {
		return err
	}
	if p.pg {
		return pgSettle(ctx, p.dsn)
	}
	return mySettle(ctx, p.db, "watermill_q")
}
func (p *wmPeer) Statements(ctx context.Context) (int64, int64, error) {
	if p.pg {
		return pgStatements(ctx, p.dsn)
	}
	return myStatements(ctx, p.db)
}
func (p *wmPeer) Close() {
	if p.db != nil {
		p.db.Close()
	}
}

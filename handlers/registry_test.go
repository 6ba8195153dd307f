package handlers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/models"
)

type mail struct {
	To string `json:"to"`
}

func (mail) JobType() string { return "mail" }

type pointer struct {
	kind string // JobType must not depend on it, but may read it
	To   string `json:"to"`
}

func (p *pointer) JobType() string { return "pointer" + p.kind }

type misnamed struct{}

func (misnamed) JobType() string { return "my mail" }

func run(t *testing.T, r *handlers.Registry, jobType, payload string) error {
	t.Helper()
	h, ok := r.Lookup(jobType)
	if !ok {
		t.Fatalf("no handler for %s", jobType)
	}
	return h.Run(t.Context(), &models.Job{ID: 5, Type: jobType, Payload: models.JSON(payload)})
}

func TestHandlersGetTheirTypedPayload(t *testing.T) {
	r := handlers.NewRegistry()
	var got []string
	handlers.Register(r, func(_ context.Context, m mail) error { got = append(got, m.To); return nil })
	handlers.Register(r, func(_ context.Context, p *pointer) error { got = append(got, p.To); return nil })
	if err := run(t, r, "mail", `{"to":"a"}`); err != nil {
		t.Error(err)
	}
	if err := run(t, r, "pointer", `{"to":"b"}`); err != nil {
		t.Error(err)
	}
	if !slices.Equal(got, []string{"a", "b"}) || !slices.Equal(r.Types(), []string{"mail", "pointer"}) {
		t.Errorf("got %q of types %q", got, r.Types())
	}
	for _, payload := range []string{`{"to":1}`, `{`, ``, `[]`} {
		if err := run(t, r, "mail", payload); err == nil || !strings.Contains(err.Error(), "decode the payload of job 5 into a handlers_test.mail") {
			t.Errorf("payload %q: %v; want that it does not decode", payload, err)
		}
	}
	if _, ok := r.Lookup("other"); ok {
		t.Error("there is a handler for a type that nobody registered")
	}
}

func TestPayloadsAreNotSharedBetweenRuns(t *testing.T) {
	r := handlers.NewRegistry()
	var got []string
	handlers.Register(r, func(_ context.Context, p *pointer) error { got = append(got, p.To); p.To = "changed"; return nil })
	for _, payload := range []string{`{"to":"b"}`, `{}`} {
		if err := run(t, r, "pointer", payload); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(got, []string{"b", ""}) {
		t.Errorf("got %q; want a fresh payload each time", got)
	}
}

func TestMistakesOfTheProgramPanicWhenRegistered(t *testing.T) {
	nothing := func(context.Context, mail) error { return nil }
	for name, c := range map[string]struct {
		do   func(r *handlers.Registry)
		want string
	}{
		"twice": {func(r *handlers.Registry) { handlers.Register(r, nothing); handlers.Register(r, nothing) }, `"mail" is registered twice`},
		"twice, once with a transaction": {func(r *handlers.Registry) {
			handlers.Register(r, nothing)
			handlers.RegisterTx(r, func(context.Context, *gorm.DB, mail) error { return nil })
		}, `"mail" is registered twice`},
		"nil":       {func(r *handlers.Registry) { handlers.Register[mail](r, nil) }, "the function is nil"},
		"nil in Tx": {func(r *handlers.Registry) { handlers.RegisterTx[mail](r, nil) }, "the function is nil"},
		"name": {func(r *handlers.Registry) {
			handlers.Register(r, func(context.Context, misnamed) error { return nil })
		}, "JobType of a zero handlers_test.misnamed"},
		"an interface": {func(r *handlers.Registry) {
			handlers.Register(r, func(context.Context, models.Payload) error { return nil })
		}, "models.Payload is an interface"},
		"no registry": {func(*handlers.Registry) { handlers.Register(nil, nothing) }, "the registry is nil"},
	} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), c.want) {
					t.Errorf("%s: panic %v; want %q", name, v, c.want)
				}
			}()
			c.do(handlers.NewRegistry())
		}()
	}
}

func TestMiddlewareWrapsWhatIsRegisteredAlready(t *testing.T) {
	r := handlers.NewRegistry()
	var order []string
	handlers.Register(r, func(ctx context.Context, m mail) error {
		j, ok := handlers.JobFrom(ctx)
		order = append(order, fmt.Sprint("handler ", j.ID, ok))
		return errBoom
	})
	for _, name := range []string{"a", "b"} {
		r.Use(func(next handlers.Func) handlers.Func {
			return func(ctx context.Context, job *models.Job) error {
				order = append(order, name)
				if j, ok := handlers.JobFrom(ctx); !ok || j != job {
					t.Errorf("middleware %s has no job in its context", name)
				}
				return fmt.Errorf("%s: %w", name, next(ctx, job))
			}
		})
	}
	if err := run(t, r, "mail", `{}`); err == nil || err.Error() != "a: b: boom" {
		t.Errorf("err %v; want a: b: boom", err)
	}
	if want := []string{"a", "b", "handler 5 true"}; !slices.Equal(order, want) {
		t.Errorf("order %q; want %q", order, want)
	}
	if _, ok := handlers.JobFrom(t.Context()); ok {
		t.Error("JobFrom of a context that is no handler's says there is a job")
	}
}

func TestOptionsOfAHandler(t *testing.T) {
	r := handlers.NewRegistry()
	h := func(opts ...handlers.Option) *handlers.Handler {
		r = handlers.NewRegistry()
		handlers.Register(r, func(context.Context, mail) error { return nil }, opts...)
		h, _ := r.Lookup("mail")
		return h
	}
	if d := h().Timeout(); d != 10*time.Minute {
		t.Errorf("the default timeout is %s; want 10m", d)
	}
	if d := h(handlers.Timeout(-1)).Timeout(); d != 0 {
		t.Errorf("a negative timeout is %s; want none", d)
	}
	if d := h(handlers.Backoff(func(n int) time.Duration { return -time.Duration(n) })).Backoff(3); d != 0 {
		t.Errorf("a negative backoff is %s; want 0", d)
	}
	if d := h(handlers.Backoff(nil)).Backoff(1); d < 9*time.Second || d > 11*time.Second {
		t.Errorf("no backoff is %s; want the default's 10s", d)
	}
	if h().Transactional() {
		t.Error("a handler of Register is transactional")
	}
}

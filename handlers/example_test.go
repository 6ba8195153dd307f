package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/models"
)

// Welcome is a payload.
type Welcome struct {
	To string `json:"to"`
}

// JobType implements [models.Payload].
func (Welcome) JobType() string { return "welcome" }

// Mailer has what its handlers need.
type Mailer struct{ From string }

// Welcome answers jobs of its payload's type.
func (m Mailer) Welcome(_ context.Context, w Welcome) error {
	fmt.Println(m.From, "greets", w.To)
	return nil
}

func ExampleRegister() {
	registry := handlers.NewRegistry()
	handlers.Register(registry, Mailer{From: "us"}.Welcome, handlers.Timeout(30*time.Second))

	// A worker does this:
	h, _ := registry.Lookup("welcome")
	fmt.Println(h.Run(context.Background(), &models.Job{Payload: `{"to":"Gopher"}`}))
	// Output:
	// us greets Gopher
	// <nil>
}

func ExampleRegistry_Use() {
	registry := handlers.NewRegistry()
	registry.Use(func(next handlers.Func) handlers.Func {
		return func(ctx context.Context, job *models.Job) error {
			fmt.Println("begin", job.Type)
			err := next(ctx, job)
			fmt.Println("end", job.Type, err)
			return err
		}
	})
	handlers.Register(registry, Mailer{From: "us"}.Welcome)
	h, _ := registry.Lookup("welcome")
	_ = h.Run(context.Background(), &models.Job{Type: "welcome", Payload: `{"to":"Gopher"}`})
	// Output:
	// begin welcome
	// us greets Gopher
	// end welcome <nil>
}

func ExampleDiscard() {
	send := func(to string) error {
		if to == "" {
			return handlers.Discard(errors.New("there is no address")) // it will not get better
		}
		return nil
	}
	err := send("")
	fmt.Println(err, handlers.Judge(err).Discard)
	// Output:
	// discard: there is no address true
}

func ExampleRetryAfter() {
	// What a Retry-After header asked for, in place of the backoff.
	err := handlers.RetryAfter(90*time.Second, errors.New("429 Too Many Requests"))
	fmt.Println(err, handlers.Judge(err).After)
	// Output:
	// 429 Too Many Requests 1m30s
}

func ExampleSnooze() {
	err := fmt.Errorf("the shop is closed: %w", handlers.Snooze(8*time.Hour))
	v := handlers.Judge(err)
	fmt.Println(v.Snooze, v.After, v.Err)
	// Output:
	// true 8h0m0s <nil>
}

package dispatcher_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/gormjobs/gormjobs/dispatcher"
	"github.com/gormjobs/gormjobs/internal/testdb"
)

const secret = "hunter2"

// loggers are GORM's own, as applications set them.
var loggers = map[string]logger.Config{
	"info":     {LogLevel: logger.Info},
	"slow SQL": {LogLevel: logger.Warn, SlowThreshold: time.Nanosecond},
}

func TestNoPayloadIsLogged(t *testing.T) {
	for name, config := range loggers {
		t.Run(name, func(t *testing.T) {
			testdb.Each(t, func(t *testing.T, db *gorm.DB) {
				var b bytes.Buffer
				db.Logger = logger.New(log.New(&b, "", 0), config)
				p := document{secret}
				opts := []dispatcher.Option{dispatcher.Metadata(map[string]string{"m": secret})}
				err := db.Transaction(func(tx *gorm.DB) error {
					for range 2 {
						unique := append(opts, dispatcher.Unique(secret))
						if _, err := dispatcher.Enqueue(t.Context(), tx, p, unique...); err != nil {
							return err
						}
					}
					_, err := dispatcher.EnqueueMany(t.Context(), tx, []document{p, p}, opts...)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := dispatcher.EnqueueNow(t.Context(), db, p, opts...); err != nil {
					t.Fatal(err)
				}
				failsLoudly(t, db, p)
				if strings.Contains(b.String(), secret) {
					t.Errorf("the log has the payload: %s", b.String())
				}
				if !strings.Contains(b.String(), "INSERT") || !strings.Contains(b.String(), "no such table") && !strings.Contains(b.String(), "exist") {
					t.Errorf("log = %s; want the statements without their values, and the error", b.String())
				}
			})
		})
	}
}

// failsLoudly makes an insert fail: GORM logs a statement that does.
func failsLoudly(t *testing.T, db *gorm.DB, p document) {
	t.Helper()
	if err := db.Migrator().DropTable("queue_jobs"); err != nil {
		t.Fatal(err)
	}
	_, err := dispatcher.EnqueueNow(context.Background(), db, p)
	if err == nil {
		t.Error("EnqueueNow without a table = nil; want an error")
	}
	if strings.Contains(fmt.Sprint(err), secret) {
		t.Errorf("the error has the payload: %v", err)
	}
}

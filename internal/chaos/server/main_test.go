//go:build linux

package server

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// It starts the servers, and keeps its thread for them.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/gormjobs/gormjobs/internal/chaos/child.serve"))
}

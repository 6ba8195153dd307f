//go:build !unix

package testdb

import (
	"errors"
	"testing"
)

func use(string, Kind) error {
	return errors.New("servers.sh needs a Unix")
}

// takeTurn: without locks between processes, run `go test -p 1`.
func takeTurn(testing.TB, Kind, bool) {}

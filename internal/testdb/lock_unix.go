//go:build unix

package testdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// held keeps the files whose locks tell the watchers that their servers are in
// use. The kernel ends a lock with its process, however that ends.
var held struct {
	sync.Mutex
	files []*os.File
}

// use takes part in the lock for the rest of the process.
func use(dir string, kind Kind) error {
	// A watcher that has the lock is stopping the server, which takes seconds.
	f, err := lock(filepath.Join(dir, string(kind)), "use.lock", syscall.LOCK_SH, 2*time.Minute)
	if err == nil {
		held.Lock()
		defer held.Unlock()
		held.files = append(held.files, f) // parallel tests may start two servers at once
	}
	return err
}

// turns are the tests of this process that have their turn.
var turns struct {
	sync.Mutex
	names map[Kind][]string
}

// takeTurn waits until the test may use the server: with those that share it,
// or alone. The first lock keeps newcomers out while somebody waits to be
// alone with the second. A second database of one test, or of its subtests,
// comes in with the first.
func takeTurn(t testing.TB, kind Kind, alone bool) {
	t.Helper()
	turns.Lock()
	inside := slices.ContainsFunc(turns.names[kind], func(name string) bool {
		return strings.HasPrefix(t.Name()+"/", name+"/")
	})
	turns.Unlock()
	if inside {
		return
	}
	dir, err := stateDir()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, string(kind))
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	const patience = 8 * time.Minute // less than go test's own
	door, err := lock(dir, "door.lock", how, patience)
	if err != nil {
		t.Fatal(err)
	}
	room, err := lock(dir, "room.lock", how, patience)
	if err != nil {
		door.Close()
		t.Fatalf("%v (a test that calls t.Parallel itself, instead of the option testdb.Parallel, would keep it for ever)", err)
	}
	if !alone {
		door.Close()
		door = room
	}
	name := t.Name()
	turns.Lock()
	defer turns.Unlock()
	if turns.names == nil {
		turns.names = map[Kind][]string{}
	}
	turns.names[kind] = append(turns.names[kind], name)
	t.Cleanup(func() {
		turns.Lock()
		defer turns.Unlock()
		turns.names[kind] = slices.DeleteFunc(turns.names[kind], func(n string) bool { return n == name })
		room.Close()
		door.Close()
	})
}

// lock opens a file and locks it. Closing the file gives the lock back.
func lock(dir, name string, how int, patience time.Duration) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	// Not a blocking call: a lock that never comes must not hang the tests.
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Log is the file of one process.
type Log struct {
	proc string
	file *os.File
}

// Create begins a file in dir.
func Create(dir, proc string) (*Log, error) {
	f, err := os.OpenFile(filepath.Join(dir, proc+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &Log{proc, f}, nil
}

// Write appends an event, now if it does not say when. It is safe for concurrent
// use, and panics if the event cannot be written: a history with holes would
// accuse the wrong.
func (l *Log) Write(e Event) {
	e.Proc = l.proc
	if e.At == 0 {
		e.At = time.Now().UnixMicro()
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("history of %s: %v", l.proc, err))
	}
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// Read reads all files of dir. The last line of a file may be torn.
func Read(dir string) ([]Event, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []Event
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		all, err = read(f, all)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
	}
	return all, nil
}

func read(r io.Reader, all []Event) ([]Event, error) {
	lines := bufio.NewReaderSize(r, 1<<20)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil // a line without its end was torn
		}
		if err != nil {
			return nil, err
		}
		var e Event
		if err := json.Unmarshal(bytes.TrimSpace(line), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, e)
	}
}

package jobs

import (
	"errors"
	"fmt"

	"github.com/gormjobs/gormjobs/models"
)

// ErrLost: the reservation is someone else's. The job's lease ended and it was
// reaped, claimed anew, deleted or changed by hand, so what this run wanted to
// record was not. It is also the context.Cause of a handler whose job was lost.
var ErrLost = errors.New("gormjobs: the job is no longer reserved for this run")

// ErrNotFound: there is no job with this id. It may have been pruned.
var ErrNotFound = errors.New("gormjobs: no such job")

// StateError says that a job is in a state in which it cannot be requeued,
// cancelled or deleted.
type StateError struct {
	ID    uint64
	State models.State
	Verb  string // "requeue", "cancel", "delete"
}

func (e *StateError) Error() string {
	hint := map[string]string{
		"requeue": "only a failed or cancelled job can be requeued",
		"cancel":  "only a pending or scheduled job can be cancelled",
		"delete":  "only a finished job can be deleted",
	}[e.Verb]
	if e.State == models.Processing {
		hint = "wait until its run ends"
	}
	return fmt.Sprintf("gormjobs: %s job %d: it is %s: %s", e.Verb, e.ID, e.State, hint)
}

// DuplicateError says that a job cannot be requeued because another has its
// unique key.
type DuplicateError struct {
	ID     uint64 // of the job that was to be requeued
	Holder uint64 // of the job that has the key
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("gormjobs: requeue job %d: job %d has its unique key: wait until that has finished, or cancel it", e.ID, e.Holder)
}

// Package history is what the processes of a chaos run write down, and the checker
// that reads it when everything is over.
//
// Three witnesses are compared, none of which can see all of it:
//
//   - the events: each process appends to a file of its own what it enqueued in
//     which transaction, and each start and end of a handler. A line is one write,
//     so that a SIGKILL takes nothing back that was written;
//   - the rows: the business rows, the jobs, the failures and the effects that are
//     there at the end;
//   - the diary: what triggers wrote about every change of a job's row, in the
//     transaction of the change.
//
// Times are microseconds since 1970: those of the diary by the database's clock,
// those of the events by the machine's. All run on one machine, whose clock the
// run makes sure was not set meanwhile.
package history

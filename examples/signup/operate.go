package main

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-chi/chi/v5"

	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// The pages for those who look after the application.

func (web *Web) mailbox(w http.ResponseWriter, r *http.Request) {
	if web.box == nil {
		web.say(w, r, http.StatusNotFound, "Mails go to the server in SMTP_ADDR, and are not shown here.")
		return
	}
	messages := web.box.Messages()
	slices.Reverse(messages)
	web.show(w, r, http.StatusOK, "mailbox", map[string]any{
		"Messages": messages[:min(len(messages), 100)], "Count": len(messages), "Repeats": web.box.Repeats(),
	})
}

// stateCount is one tab of the jobs page.
type stateCount struct {
	State models.State
	Count int64
}

// jobs shows the newest jobs of a state. It leaves the payloads out: they have
// tokens in them.
func (web *Web) jobs(w http.ResponseWriter, r *http.Request) {
	counts, err := jobs.Count(r.Context(), web.app.db)
	if err != nil {
		web.fail(w, r, err)
		return
	}
	var tabs []stateCount
	for _, s := range models.States() {
		tabs = append(tabs, stateCount{s, counts[s]})
	}
	state := models.State(r.FormValue("state"))
	list, err := jobs.List(r.Context(), web.app.db, jobs.Filter{State: state})
	if err != nil {
		web.fail(w, r, err)
		return
	}
	web.show(w, r, http.StatusOK, "jobs", map[string]any{"Tabs": tabs, "State": state, "Jobs": list})
}

// job shows one job and each of its failures.
func (web *Web) job(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(chi.URLParam(r, "id"), 10, 64)
	if err != nil {
		web.say(w, r, http.StatusNotFound, "There is no such job.")
		return
	}
	job, err := jobs.Get(r.Context(), web.app.db, id)
	if errors.Is(err, jobs.ErrNotFound) {
		web.say(w, r, http.StatusNotFound, "There is no such job.")
		return
	}
	if err != nil {
		web.fail(w, r, err)
		return
	}
	web.show(w, r, http.StatusOK, "job", job)
}

// requeue runs a failed job again, with all its attempts before it.
func (web *Web) requeue(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(chi.URLParam(r, "id"), 10, 64)
	if err == nil {
		err = jobs.Requeue(r.Context(), web.app.db, id)
	}
	var state *jobs.StateError
	switch {
	case errors.As(err, &state):
		web.say(w, r, http.StatusConflict, "This job is "+string(state.State)+": only a failed or a cancelled one can be requeued.")
	case errors.Is(err, jobs.ErrNotFound), errors.Is(err, strconv.ErrSyntax), errors.Is(err, strconv.ErrRange):
		web.say(w, r, http.StatusNotFound, "There is no such job.")
	case err != nil:
		web.fail(w, r, err)
	default:
		http.Redirect(w, r, "/jobs/"+strconv.FormatUint(id, 10), http.StatusSeeOther)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gormjobs/gormjobs/jobs"
	"github.com/gormjobs/gormjobs/models"
)

// mailJobs returns the run's jobs that are mails, by their own payloads: others
// may use the same database.
func (s *story) mailJobs(ctx context.Context) ([]models.Job, error) {
	var own []models.Job
	for _, jobType := range []string{WelcomeEmail{}.JobType(), PasswordResetEmail{}.JobType()} {
		filter := jobs.Filter{Type: jobType, Limit: 1000}
		for {
			page, err := jobs.List(ctx, s.db, filter)
			if err != nil {
				return nil, err
			}
			for _, j := range page {
				if j.ID > s.before && strings.Contains(string(j.Payload), "@"+s.domain) {
					own = append(own, j)
				}
			}
			if len(page) < filter.Limit || page[len(page)-1].ID <= s.before {
				break
			}
			filter.Before = page[len(page)-1].ID
		}
	}
	return own, nil
}

// finished waits until no job of the run has anything left to do, and the expired
// sessions are gone.
func (s *story) finished(ctx context.Context) error {
	fmt.Println("waiting for the jobs; those of the killed worker until its lease ends")
	for {
		if err := s.workers.running(); err != nil {
			return err
		}
		own, err := s.mailJobs(ctx)
		if err != nil {
			return err
		}
		left := len(slices.DeleteFunc(own, func(j models.Job) bool { return j.State.Finished() }))
		expired, err := s.expiredLeft(ctx)
		if err != nil {
			return err
		}
		if left == 0 && expired == 0 {
			s.outcome.cleanedUp = expiredSessions
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d jobs and %d expired sessions are left", context.Cause(ctx), left, expired)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *story) expiredLeft(ctx context.Context) (n int64, err error) {
	var hashes []string
	for i := range expiredSessions {
		hashes = append(hashes, digest(fmt.Sprint(s.domain, i)))
	}
	err = s.db.WithContext(ctx).Model(&Session{}).Where("token_hash IN ?", hashes).Count(&n).Error
	return n, err
}

// check compares what happened with what should have, and counts it.
func (s *story) check(ctx context.Context) error {
	return errors.Join(s.checkMails(), s.checkJobs(ctx), s.checkRows(ctx), s.checkLinks(ctx))
}

// checkMails: everyone who signed up has been welcomed once, everyone with an
// account who asked has one link, and nobody has anything else. Whoever was
// rolled back is among the nobody, unless they had an account before.
func (s *story) checkMails() error {
	want := map[string]int{}
	for _, to := range s.outcome.signedUp {
		want["Welcome to "+to]++
	}
	for _, to := range s.outcome.resetTo {
		want["Choose a new password to "+to]++
	}
	delete(want, "Welcome to "+s.address("nobody")) // refused for ever
	for _, m := range s.box.Messages() {
		if s.mine(m.To) {
			want[m.Subject+" to "+m.To]--
			s.outcome.mails++
		}
	}
	var wrong []error
	for _, mail := range slices.Sorted(maps.Keys(want)) {
		switch n := want[mail]; {
		case n > 0:
			wrong = append(wrong, fmt.Errorf("missing mail: %s", mail))
		case n < 0:
			wrong = append(wrong, fmt.Errorf("%d too many: %s", -n, mail))
		}
	}
	for _, m := range s.box.Repeats() {
		if s.mine(m.To) {
			s.outcome.repeats++
		}
	}
	if s.outcome.repeats == 0 {
		wrong = append(wrong, errors.New("the kill caused no repeat"))
	}
	return errors.Join(wrong...)
}

// checkJobs: a job for every mail and no other, all completed but the one that
// was refused three times.
func (s *story) checkJobs(ctx context.Context) error {
	own, err := s.mailJobs(ctx)
	if err != nil {
		return err
	}
	var wrong []error
	if want := len(s.outcome.signedUp) + len(s.outcome.resetTo); len(own) != want {
		wrong = append(wrong, fmt.Errorf("%d jobs, want %d", len(own), want))
	}
	for _, j := range own {
		s.outcome.retries += j.Attempts - 1
		switch {
		case j.State == models.Failed && strings.Contains(string(j.Payload), s.address("nobody")):
			s.outcome.failed++
			full, err := jobs.Get(ctx, s.db, j.ID)
			if err != nil {
				return err
			}
			if len(full.Failures) != 3 {
				wrong = append(wrong, fmt.Errorf("job %d has %d failures on record, want 3", j.ID, len(full.Failures)))
			}
			fmt.Printf("job %d failed for good after %d attempts: %s\n", j.ID, j.Attempts, j.LastError)
		case j.State != models.Completed:
			wrong = append(wrong, fmt.Errorf("job %d is %s after %d attempts: %s", j.ID, j.State, j.Attempts, j.LastError))
		}
	}
	if s.outcome.failed != 1 {
		wrong = append(wrong, fmt.Errorf("%d jobs failed for good, want 1", s.outcome.failed))
	}
	if s.outcome.kills != 1 {
		wrong = append(wrong, fmt.Errorf("%d kills, want 1", s.outcome.kills))
	}
	return errors.Join(wrong...)
}

// checkRows: the users are those whose sign-up said so, and the cleanup has left
// their sessions alone.
func (s *story) checkRows(ctx context.Context) error {
	var emails []string
	if err := s.db.WithContext(ctx).Model(&User{}).Where("email LIKE ?", "%@"+s.domain).Order("email").Pluck("email", &emails).Error; err != nil {
		return err
	}
	slices.Sort(emails)
	want := slices.Sorted(slices.Values(s.outcome.signedUp))
	if !slices.Equal(emails, want) {
		return fmt.Errorf("the users are %v, want %v", emails, want)
	}
	var live int64
	err := s.db.WithContext(ctx).Model(&Session{}).Where("user_id IN (?)",
		s.db.Model(&User{}).Select("id").Where("email LIKE ?", "%@"+s.domain)).Count(&live).Error
	if err == nil && live != int64(len(want)) {
		err = fmt.Errorf("%d sessions are left, want %d", live, len(want))
	}
	return err
}

// checkLinks: a mailed link sets a new password, once, and it signs in.
func (s *story) checkLinks(ctx context.Context) error {
	for _, m := range s.box.Messages() {
		if !s.mine(m.To) || m.Subject != "Choose a new password" {
			continue
		}
		for _, step := range []struct {
			what, url string
			form      url.Values
			want      int
		}{
			{"follow the link", m.Link(), url.Values{"password": {"a new one of mine"}}, http.StatusOK},
			{"follow it again", m.Link(), url.Values{"password": {"somebody else's"}}, http.StatusGone},
			{"sign in", s.url + "/login", url.Values{"email": {m.To}, "password": {"a new one of mine"}}, http.StatusSeeOther},
			{"use the old password", s.url + "/login", url.Values{"email": {m.To}, "password": {demoPassword}}, http.StatusForbidden},
		} {
			status, err := s.post(ctx, step.url, step.form)
			if err != nil {
				return err
			}
			if status != step.want {
				return fmt.Errorf("%s: status %d, want %d", step.what, status, step.want)
			}
		}
		return nil
	}
	return errors.New("nobody got a link")
}

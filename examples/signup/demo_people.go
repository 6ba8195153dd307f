package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const demoPassword = "correct horse"

// outcome is what the people saw and what became of it.
type outcome struct {
	mu        sync.Mutex
	signedUp  []string // addresses whose sign-up was committed
	rolledTo  []string // addresses of sign-ups that were rolled back
	resetTo   []string // addresses with an account that asked for a reset
	mails     int
	repeats   int
	retries   int
	kills     int
	failed    int
	cleanedUp int64
}

func (o *outcome) String() string {
	return fmt.Sprintf("%d sign-ups, %d rolled back, %d mails, %d repeats dropped by Message-ID, %d retries, %d kill, %d job failed for good, %d sessions cleaned",
		len(o.signedUp), len(o.rolledTo), o.mails, o.repeats, o.retries, o.kills, o.failed, o.cleanedUp)
}

func (o *outcome) note(list *[]string, address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*list = append(*list, address)
}

// signUps has people sign up over HTTP, a few at a time. Every fourth comes with
// an invitation that has seats for half of those: the others are rolled back
// after their mail was enqueued. Then some sign up a second time.
func (s *story) signUps(ctx context.Context, people int) error {
	invitation := Invitation{Code: s.domain, Seats: (people + 3) / 8}
	if err := s.db.WithContext(ctx).Create(&invitation).Error; err != nil {
		return err
	}
	fmt.Println(people, "people sign up")
	group, together := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for i := range people {
		group.Go(func() error {
			if i%4 == 3 {
				return s.signUp(together, s.person(i), invitation.Code)
			}
			return s.signUp(together, s.person(i), "")
		})
	}
	// One has an address that no mail server takes.
	group.Go(func() error { return s.signUp(together, s.address("nobody"), "") })
	if err := group.Wait(); err != nil {
		return err
	}
	for i := 0; i < people; i += 4 {
		if err := s.signUp(ctx, s.person(i), ""); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) person(i int) string { return s.address(fmt.Sprintf("p%d", i)) }

func (s *story) signUp(ctx context.Context, address, invitation string) error {
	status, err := s.post(ctx, s.url+"/signup", url.Values{"email": {address}, "password": {demoPassword}, "invitation": {invitation}})
	switch {
	case err != nil:
		return err
	case status == http.StatusSeeOther:
		s.outcome.note(&s.outcome.signedUp, address)
	case status == http.StatusConflict, status == http.StatusForbidden:
		s.outcome.note(&s.outcome.rolledTo, address)
	default:
		return fmt.Errorf("sign up %s: status %d", address, status)
	}
	return nil
}

// resets has every third ask for a new password, those who were turned away too,
// and somebody who never came.
func (s *story) resets(ctx context.Context, people int) error {
	has := map[string]bool{}
	for _, address := range s.outcome.signedUp {
		has[address] = true
	}
	ask := []string{s.address("stranger")}
	for i := 0; i < people; i += 3 {
		ask = append(ask, s.person(i))
	}
	fmt.Println(len(ask), "people ask for a new password")
	for _, address := range ask {
		status, err := s.post(ctx, s.url+"/forgot", url.Values{"email": {address}})
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("ask for a reset for %s: status %d", address, status)
		}
		if has[address] {
			s.outcome.note(&s.outcome.resetTo, address)
		}
	}
	return nil
}

// expiredSessions is how many sessions end during the demo.
const expiredSessions = 10

func (s *story) expireSessions(ctx context.Context) error {
	var user User
	if err := s.db.WithContext(ctx).Where("email = ?", s.outcome.signedUp[0]).Take(&user).Error; err != nil {
		return err
	}
	for i := range expiredSessions {
		session := newSession(user.ID, fmt.Sprint(s.domain, i))
		session.ExpiresAt = time.Now().Add(-time.Minute).Unix()
		if err := s.db.WithContext(ctx).Create(session).Error; err != nil {
			return err
		}
	}
	return nil
}

// browser shows a redirect instead of following it.
var browser = &http.Client{
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (s *story) post(ctx context.Context, url string, form url.Values) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := browser.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

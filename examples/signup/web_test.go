package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/testdb"
	"github.com/gormjobs/gormjobs/jobs"
)

// visitor is a browser at the application's pages.
type visitor struct {
	t      *testing.T
	client *http.Client
	url    string
}

type site struct {
	db     *gorm.DB
	app    *App
	box    *Mailbox
	mailer *Mailer
	url    string
}

func newSite(t *testing.T, box *Mailbox) *site {
	t.Helper()
	db := testdb.Open(t, testdb.SQLite, translated)
	s := &site{db: db, app: newApp(t, db), box: box, mailer: startMailbox(t, box)}
	web := &Web{app: s.app, box: box}
	server := httptest.NewServer(web.Routes())
	t.Cleanup(server.Close)
	s.url, s.mailer.URL = server.URL, server.URL
	return s
}

func (s *site) visitor(t *testing.T) *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{t: t, client: &http.Client{Jar: jar}, url: s.url}
}

// expect follows redirects, and checks the status and that the page has all of
// the parts.
func (v *visitor) expect(status int, parts ...string) func(*http.Response, error) string {
	return func(response *http.Response, err error) string {
		v.t.Helper()
		if err != nil {
			v.t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			v.t.Fatal(err)
		}
		where := response.Request.Method + " " + response.Request.URL.Path
		if response.StatusCode != status {
			v.t.Errorf("%s: status %d, want %d", where, response.StatusCode, status)
		}
		for _, part := range parts {
			if !strings.Contains(string(body), part) {
				v.t.Errorf("%s lacks %q:\n%s", where, part, body)
			}
		}
		return string(body)
	}
}

func (v *visitor) get(path string) (*http.Response, error) { return v.client.Get(v.url + path) }

func (v *visitor) post(path string, form ...string) (*http.Response, error) {
	values := url.Values{}
	for i := 0; i < len(form); i += 2 {
		values.Set(form[i], form[i+1])
	}
	return v.client.PostForm(v.url+path, values)
}

func TestAVisitorSignsUpConfirmsAndSignsOut(t *testing.T) {
	s := newSite(t, new(Mailbox))
	v := s.visitor(t)
	v.expect(200, "Sign up", `name="password"`)(v.get("/"))
	v.expect(200, "signed in as <b>ada@example.com</b>", "not confirmed yet")(v.post("/signup", "email", "ada@example.com", "password", "long enough"))
	drain(t, s.db, s.mailer)
	v.expect(200, "Welcome", "ada@example.com", "/confirm/")(v.get("/mailbox"))
	v.expect(200, "is confirmed")(http.Get(s.box.Messages()[0].Link()))
	v.expect(200, "Your address is confirmed")(v.get("/"))
	v.expect(200, "Sign up")(v.post("/logout"))
	v.expect(410, "expired")(v.get("/confirm/made-up"))
}

func TestAResetLinkSetsThePasswordOnceAndEndsAllSessions(t *testing.T) {
	s := newSite(t, new(Mailbox))
	v := s.visitor(t)
	v.expect(200)(v.post("/signup", "email", "ada@example.com", "password", "long enough"))
	drain(t, s.db, s.mailer)
	const answer = "If there is an account for this address, a mail is on its way."
	v.expect(200, answer)(v.post("/forgot", "email", "ada@example.com"))
	v.expect(200, answer)(v.post("/forgot", "email", "stranger@example.com"))
	drain(t, s.db, s.mailer)
	messages := s.box.Messages()
	if len(messages) != 2 {
		t.Fatalf("%d mails, want 2", len(messages))
	}
	path := strings.TrimPrefix(messages[1].Link(), s.url)
	v.expect(200, "Choose a new password", `action="`+path+`"`)(v.get(path))
	v.expect(422, "8 to 200")(v.post(path, "password", "short"))
	v.expect(200, "Done")(v.post(path, "password", "even longer"))
	v.expect(410, "expired, or was used")(v.post(path, "password", "somebody else's"))
	v.expect(200, "Sign up")(v.get("/")) // signed out
	v.expect(403, "wrong")(v.post("/login", "email", "ada@example.com", "password", "long enough"))
	v.expect(200, "signed in as")(v.post("/login", "email", "ada@example.com", "password", "even longer"))
}

func TestAnExpiredResetLinkDoesNothing(t *testing.T) {
	s := newSite(t, new(Mailbox))
	v := s.visitor(t)
	signUp(t, s.app, "ada@example.com")
	if err := s.db.Create(&PasswordReset{TokenHash: digest("late"), UserID: 1, ExpiresAt: 1}).Error; err != nil {
		t.Fatal(err)
	}
	v.expect(410)(v.post("/reset/late", "password", "even longer"))
	v.expect(200, "signed in as")(v.post("/login", "email", "ada@example.com", "password", "long enough"))
}

func TestTheFormSaysWhatIsWrong(t *testing.T) {
	s := newSite(t, new(Mailbox))
	v := s.visitor(t)
	signUp(t, s.app, "taken@example.com")
	for _, c := range []struct {
		email, password, invitation string
		status                      int
		says                        string
	}{
		{"no address", "long enough", "", 422, "no mail address"},
		{"ada@example.com", "short", "", 422, "8 to 200"},
		{"taken@example.com", "long enough", "", 409, "account for this address already"},
		{"ada@example.com", "long enough", "no such", 403, "no seats left"},
	} {
		v.expect(c.status, c.says)(v.post("/signup", "email", c.email, "password", c.password, "invitation", c.invitation))
	}
	v.expect(404, "no such page")(v.get("/nowhere"))
}

func TestAFailedJobIsShownWithItsFailuresAndCanBeRequeued(t *testing.T) {
	var down atomic.Bool
	down.Store(true)
	s := newSite(t, &Mailbox{Refuse: func(string) bool { return down.Load() }})
	v := s.visitor(t)
	signUp(t, s.app, "ada@example.com")
	drain(t, s.db, s.mailer)
	job := onlyJob(t, s.db)
	path := fmt.Sprintf("/jobs/%d", job.ID)

	v.expect(200, "send_welcome_email", "3 of 3", "no such mailbox", path+"/requeue")(v.get("/jobs?state=failed"))
	page := v.expect(200, "failed", "Requeue")(v.get(path))
	if got := strings.Count(page, "no such mailbox"); got != 3 {
		t.Errorf("the job's page shows %d failures, want 3", got)
	}
	for _, secret := range []string{"&#34;token", `"token"`} {
		if strings.Contains(page, secret) {
			t.Error("the job's page shows its payload")
		}
	}
	v.expect(200, "None.")(v.get("/jobs?state=pending"))

	down.Store(false)
	v.expect(200, "pending")(v.post(path + "/requeue"))
	drain(t, s.db, s.mailer)
	wantMails(t, s.box, "Welcome to ada@example.com")
	v.expect(409, "completed")(v.post(path + "/requeue"))
	v.expect(404)(v.post("/jobs/999999/requeue"))
	v.expect(404)(v.get("/jobs/x"))
}

func TestWhatAJobSaysIsEscaped(t *testing.T) {
	s := newSite(t, new(Mailbox))
	v := s.visitor(t)
	signUp(t, s.app, "ada@example.com")
	claimer, err := jobs.NewClaimer(s.db, jobs.ClaimerConfig{Queue: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := claimer.Claim(t.Context(), 1)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("Claim = %d jobs, %v; want 1", len(claimed), err)
	}
	if err := jobs.Fail(t.Context(), s.db, &claimed[0], errors.New("<script>alert(1)</script>")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/jobs", fmt.Sprintf("/jobs/%d", claimed[0].ID)} {
		if page := v.expect(200, "&lt;script&gt;")(v.get(path)); strings.Contains(page, "<script>") {
			t.Errorf("%s has a script in it", path)
		}
	}
}

func TestTheSessionCookieIsOutOfReachOfScriptsAndOtherSites(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := newSite(t, new(Mailbox))
		web := &Web{app: s.app, secure: secure}
		r := httptest.NewRequest("POST", "/signup", strings.NewReader("email=ada@example.com&password=long+enough"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		web.Routes().ServeHTTP(w, r)
		cookies := w.Result().Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%d cookies, status %d; want 1", len(cookies), w.Code)
		}
		c := cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure != secure || c.Path != "/" {
			t.Errorf("the cookie is %v; want HttpOnly, SameSite=Lax, Path=/, Secure: %t", c, secure)
		}
		var stored Session
		if err := s.db.Take(&stored).Error; err != nil || stored.TokenHash == c.Value {
			t.Errorf("the table has %q, %v; want a hash of the cookie's value", stored.TokenHash, err)
		}
	}
}

func TestAnotherSiteCannotPostForAVisitor(t *testing.T) {
	s := newSite(t, new(Mailbox))
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/logout", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	v := s.visitor(t)
	v.expect(403)(v.client.Do(r))
}

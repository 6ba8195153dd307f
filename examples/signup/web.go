package main

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// Web is the pages of the application.
type Web struct {
	app    *App
	box    *Mailbox // nil if mails go to somebody else's server
	secure bool     // cookies go over HTTPS only
}

func isHTTPS(url string) bool { return strings.HasPrefix(url, "https://") }

// Routes returns the handler of all pages.
func (web *Web) Routes() http.Handler {
	r := chi.NewRouter()
	r.Use(headers, http.NewCrossOriginProtection().Handler)
	r.Get("/", web.home)
	r.Post("/signup", web.signUp)
	r.Get("/login", func(w http.ResponseWriter, r *http.Request) { web.show(w, r, http.StatusOK, "login", nil) })
	r.Post("/login", web.signIn)
	r.Post("/logout", web.signOut)
	r.Get("/confirm/{token}", web.confirm)
	r.Get("/forgot", func(w http.ResponseWriter, r *http.Request) { web.show(w, r, http.StatusOK, "forgot", nil) })
	r.Post("/forgot", web.forgot)
	r.Get("/reset/{token}", func(w http.ResponseWriter, r *http.Request) { web.show(w, r, http.StatusOK, "reset", nil) })
	r.Post("/reset/{token}", web.reset)

	// A real application puts these behind a login of its own: they show
	// everybody's mail, and run jobs.
	r.Get("/mailbox", web.mailbox)
	r.Get("/jobs", web.jobs)
	r.Get("/jobs/{id}", web.job)
	r.Post("/jobs/{id}/requeue", web.requeue)

	r.Handle("GET /static/*", http.FileServerFS(static))
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		web.say(w, r, http.StatusNotFound, "There is no such page.")
	})
	return r
}

// headers keeps pages from loading anything, and links with tokens from being
// told to other sites.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		w.Header().Set("Referrer-Policy", "same-origin")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		next.ServeHTTP(w, r)
	})
}

func (web *Web) home(w http.ResponseWriter, r *http.Request) {
	user, err := web.user(r)
	if err != nil {
		web.fail(w, r, err)
		return
	}
	web.show(w, r, http.StatusOK, "home", user)
}

func (web *Web) signUp(w http.ResponseWriter, r *http.Request) {
	session, err := web.app.SignUp(r.Context(), r.PostFormValue("email"), r.PostFormValue("password"), r.PostFormValue("invitation"))
	if err != nil {
		web.fail(w, r, err)
		return
	}
	web.setCookie(w, session, int(sessionLifetime.Seconds()))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (web *Web) signIn(w http.ResponseWriter, r *http.Request) {
	session, err := web.app.SignIn(r.Context(), r.PostFormValue("email"), r.PostFormValue("password"))
	if err != nil {
		web.fail(w, r, err)
		return
	}
	web.setCookie(w, session, int(sessionLifetime.Seconds()))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (web *Web) signOut(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName); err == nil {
		if err := web.app.SignOut(r.Context(), c.Value); err != nil {
			web.fail(w, r, err)
			return
		}
	}
	web.setCookie(w, "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (web *Web) confirm(w http.ResponseWriter, r *http.Request) {
	if err := web.app.Confirm(r.Context(), chi.URLParam(r, "token")); err != nil {
		web.fail(w, r, err)
		return
	}
	web.say(w, r, http.StatusOK, "Thank you, your address is confirmed.")
}

func (web *Web) forgot(w http.ResponseWriter, r *http.Request) {
	if err := web.app.RequestReset(r.Context(), r.PostFormValue("email")); err != nil {
		web.fail(w, r, err)
		return
	}
	web.say(w, r, http.StatusOK, "If there is an account for this address, a mail is on its way.")
}

func (web *Web) reset(w http.ResponseWriter, r *http.Request) {
	if err := web.app.ResetPassword(r.Context(), chi.URLParam(r, "token"), r.PostFormValue("password")); err != nil {
		web.fail(w, r, err)
		return
	}
	web.say(w, r, http.StatusOK, "Done. Now you can sign in with your new password.")
}

const cookieName = "session"

func (web *Web) setCookie(w http.ResponseWriter, session string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: session, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: web.secure, SameSite: http.SameSiteLaxMode,
	})
}

func (web *Web) user(r *http.Request) (*User, error) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return nil, nil // not signed in
	}
	return web.app.UserOf(r.Context(), c.Value)
}

// statuses are of the errors that visitors are told about.
var statuses = map[error]int{
	ErrTaken:       http.StatusConflict,
	ErrInvitation:  http.StatusForbidden,
	ErrCredentials: http.StatusForbidden,
	ErrLink:        http.StatusGone,
	ErrAddress:     http.StatusUnprocessableEntity,
	ErrPassword:    http.StatusUnprocessableEntity,
}

// fail tells visitors what they can do something about, and the log the rest.
func (web *Web) fail(w http.ResponseWriter, r *http.Request, err error) {
	for known, status := range statuses {
		if errors.Is(err, known) {
			web.say(w, r, status, "Sorry, "+known.Error()+".")
			return
		}
	}
	// Not the path: it may have a token in it.
	slog.Error("request failed", "method", r.Method, "route", chi.RouteContext(r.Context()).RoutePattern(), "error", err)
	web.say(w, r, http.StatusInternalServerError, "Sorry, something went wrong here. Nothing was changed.")
}

// say shows a page of one sentence.
func (web *Web) say(w http.ResponseWriter, r *http.Request, status int, sentence string) {
	web.show(w, r, status, "message", sentence)
}

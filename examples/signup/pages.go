package main

import (
	"bytes"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/gormjobs/gormjobs/models"
)

//go:embed templates/*.html
var templates embed.FS

//go:embed static
var static embed.FS

// pages are the templates, each within the layout. html/template escapes what is
// put into them.
var pages = parsePages("home", "login", "forgot", "reset", "message", "mailbox", "jobs", "job")

func parsePages(names ...string) map[string]*template.Template {
	parsed := map[string]*template.Template{}
	functions := template.FuncMap{"ago": ago}
	for _, name := range names {
		parsed[name] = template.Must(template.New("layout.html").Funcs(functions).
			ParseFS(templates, "templates/layout.html", "templates/"+name+".html"))
	}
	return parsed
}

// show writes a page, or, if its template fails, none of it.
func (web *Web) show(w http.ResponseWriter, r *http.Request, status int, page string, data any) {
	var b bytes.Buffer
	if err := pages[page].Execute(&b, map[string]any{"Page": page, "Path": r.URL.Path, "HasMailbox": web.box != nil, "Data": data}); err != nil {
		slog.Error("render a page", "page", page, "error", err)
		http.Error(w, "Sorry, something went wrong here.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // a visitor who has left
}

func ago(t models.Timestamp) string {
	if t.IsZero() {
		return "–"
	}
	return time.Since(t.Time()).Round(time.Second).String() + " ago"
}

package main

import (
	"fmt"
	"html"
	"io"
	"slices"
)

// chart draws drain100 and the latencies of all libraries as an SVG: a panel for each database and figure, a bar for
// each library, longest rate or shortest latency first.
func chart(w io.Writer, rs []result) {
	const (
		width, left, bar, gap, head = 860, 250, 18, 8, 44
		ourColor, color, floorColor = "#0b7a75", "#9aa5b1", "#d8c690"
	)
	type row struct {
		who   who
		value float64
		text  string
	}
	type panel struct {
		title string
		rows  []row
	}
	var panels []panel
	for _, f := range []struct {
		op, what string
		value    func([]result) float64
		text     func([]result) string
		least    bool // the least is best
	}{
		{"drain100", "jobs a second, 100 at once, each durably completed", func(g []result) float64 { return median(each(g, rate)) },
			func(g []result) string { return fmt.Sprintf("%.0f/s", median(each(g, rate))) }, false},
		{"latency", "from enqueue to handler on an idle queue, median (99th percentile)", func(g []result) float64 { return median(each(g, p50)) },
			func(g []result) string {
				return fmt.Sprintf("%.1f ms (%.0f ms)", median(each(g, p50)), median(each(g, p99)))
			}, true},
	} {
		groups := map[who][]result{}
		var kinds []string
		for _, r := range good(rs) {
			if r.Op == f.op {
				groups[r.who()] = append(groups[r.who()], r)
				if !slices.Contains(kinds, r.DB) {
					kinds = append(kinds, r.DB)
				}
			}
		}
		for _, kind := range kinds {
			p := panel{title: title(kind) + ": " + f.what}
			for k, g := range groups {
				if k.db == kind {
					p.rows = append(p.rows, row{k, f.value(g), f.text(g)})
				}
			}
			slices.SortFunc(p.rows, func(a, b row) int {
				if (a.value < b.value) == f.least {
					return -1
				}
				return 1
			})
			panels = append(panels, p)
		}
	}
	height := 20
	for _, p := range panels {
		height += head + len(p.rows)*(bar+gap) + 16
	}
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(w, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	y := 10
	for _, p := range panels {
		y += head
		fmt.Fprintf(w, `<text x="16" y="%d" font-size="15" font-weight="bold" fill="#1f2933">%s</text>`+"\n", y-14, html.EscapeString(p.title))
		most := 0.0
		for _, r := range p.rows {
			most = max(most, r.value)
		}
		for _, r := range p.rows {
			fill, weight := color, "normal"
			switch r.who.peer {
			case "gormjobs":
				fill, weight = ourColor, "bold"
			case "limit":
				fill = floorColor
			}
			length := max(2, int(r.value/max(most, 1e-9)*(width-left-150)))
			fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="end" font-weight="%s" fill="#1f2933">%s</text>`, left-10, y+13, weight, html.EscapeString(r.who.String()))
			fmt.Fprintf(w, `<rect x="%d" y="%d" width="%d" height="%d" rx="2" fill="%s"/>`, left, y, length, bar, fill)
			fmt.Fprintf(w, `<text x="%d" y="%d" fill="#1f2933">%s</text>`+"\n", left+length+8, y+13, html.EscapeString(r.text))
			y += bar + gap
		}
		y += 16
	}
	fmt.Fprintln(w, "</svg>")
}

func title(kind string) string {
	switch kind {
	case "postgres":
		return "PostgreSQL"
	case "mysql":
		return "MySQL"
	case "mariadb":
		return "MariaDB"
	}
	return "SQLite"
}

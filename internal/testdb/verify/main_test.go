package main

import (
	"strings"
	"testing"
)

const goodRun = `
{"Action":"pass","Package":"p","Test":"TestA/sqlite"}
{"Action":"pass","Package":"p","Test":"TestA/mysql/deep"}
{"Action":"output","Package":"p","Test":"TestSoak","Output":"    a_test.go:1: takes long; GORMJOBS_TEST_LONG=1 runs it\n"}
{"Action":"skip","Package":"p","Test":"TestSoak"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
{"Action":"skip","Package":"without/tests"}`

func TestVerify(t *testing.T) {
	for name, c := range map[string]struct{ more, want string }{
		"good":           {"", ""},
		"failed":         {`{"Action":"fail","Package":"p","Test":"TestB"}`, "WRONG: tests failed"},
		"skipped":        {`{"Action":"skip","Package":"p","Test":"TestB/mysql"}`, "WRONG: p TestB/mysql was skipped"},
		"does not build": {`{"Action":"build-output","ImportPath":"q","Output":"syntax error\n"}` + "\n" + `{"Action":"fail","Package":"q"}`, "syntax error"},
	} {
		r, err := read(strings.NewReader(goodRun + "\n" + c.more))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		good := r.report(&out, []string{"sqlite", "mysql"})
		if good != (c.want == "") || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: %t, %s\nwant %q in it", name, good, &out, c.want)
		}
		if !strings.HasSuffix(out.String(), "ok  \tp\t0.1s\n") {
			t.Errorf("%s: %s\nwant the summary last", name, &out)
		}
	}
}

func TestUntestedKindIsWrong(t *testing.T) {
	r, err := read(strings.NewReader(goodRun))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if good := r.report(&out, []string{"sqlite", "mariadb"}); good || !strings.Contains(out.String(), "WRONG: mariadb was not tested") {
		t.Errorf("report = %t, %s; want mariadb named", good, &out)
	}
}

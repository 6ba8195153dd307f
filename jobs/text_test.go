package jobs // clean is not exported, and a database a case would make a slow fuzzer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "plain", "a\x00b", "\xff\xfe", "\xed\xa0\x80", "é😀", "😀\xf0\x9f", strings.Repeat("é", 50)} {
		for limit := range 12 {
			f.Add(s, limit)
		}
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, limit)
		got := clean(s, limit)
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > limit {
			t.Errorf("clean(%q, %d) = %q: not storable", s, limit, got)
		}
		if clean(got, limit) != got {
			t.Errorf("clean(%q, %d) is cleaned again to %q", got, limit, clean(got, limit))
		}
		if utf8.ValidString(s) && !strings.Contains(s, "\x00") {
			if !strings.HasPrefix(s, got) {
				t.Errorf("clean(%q, %d) = %q: no prefix", s, limit, got)
			}
			if len(s) > limit && len(got) <= limit-utf8.UTFMax {
				t.Errorf("clean(%q, %d) = %q: cut too much", s, limit, got)
			}
		}
	})
}

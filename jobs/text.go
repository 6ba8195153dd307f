package jobs

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clean makes s storable: valid UTF-8, no NUL (PostgreSQL refuses it, and then the
// failure itself could not be recorded), at most limit bytes, cut between runes.
func clean(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
		for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
			if b := s[len(s)-i]; utf8.RuneStart(b) {
				if !utf8.FullRuneInString(s[len(s)-i:]) {
					s = s[:len(s)-i]
				}
				break
			}
		}
	}
	s = strings.ToValidUTF8(s, "?")
	return strings.ReplaceAll(s, "\x00", "?")
}

// errorText is err's text, whatever its Error method does.
func errorText(err error) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("a %T whose Error method panicked: %v", err, v)
		}
	}()
	if err == nil {
		return "no error given"
	}
	return err.Error()
}

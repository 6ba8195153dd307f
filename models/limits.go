package models

import "fmt"

// Limits of what a row takes. They are checked before any SQL: MySQL cuts a long
// value silently outside strict mode, MariaDB drops the connection over a packet
// above 16 MB, and PostgreSQL aborts the caller's transaction.
const (
	MaxName      = 100      // bytes of a type or a queue
	MaxPayload   = 8 << 20  // bytes of JSON
	MaxMetadata  = 64 << 10 // bytes of JSON
	MaxErrorText = 10_000   // bytes of an error that are kept
	MaxStack     = 32_000   // bytes of a stack that are kept
)

// CheckName returns an error unless name can name a queue, a type or a cron
// entry: 1 to 100 of A-Z a-z 0-9 _ . : / and -.
func CheckName(name string) error {
	if name == "" {
		return fmt.Errorf("the name is empty: use 1 to %d of A-Z a-z 0-9 _ . : / -", MaxName)
	}
	if len(name) > MaxName {
		return fmt.Errorf("the name %.20q… has %d bytes: at most %d are kept", name, len(name), MaxName)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_', c == '.', c == ':', c == '/', c == '-':
		default:
			return fmt.Errorf("the name %q has a %q: use A-Z a-z 0-9 _ . : / - only", name, c)
		}
	}
	return nil
}

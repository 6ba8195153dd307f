package main

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/mail"
	"strings"
)

// hashRounds is what OWASP asks of PBKDF2 with SHA-256.
const hashRounds = 600_000

// What is wrong with a form.
var (
	ErrAddress  = errors.New("this is no mail address")
	ErrPassword = errors.New("the password needs 8 to 200 characters")
)

// parseAddress returns the address in the one spelling by which we know it. It
// refuses what could end a header line of a mail.
func parseAddress(s string) (string, error) {
	a, err := mail.ParseAddress(strings.TrimSpace(s))
	if err != nil || a.Name != "" || len(a.Address) > 254 {
		return "", ErrAddress
	}
	for _, c := range a.Address {
		if c <= ' ' || c > '~' {
			return "", ErrAddress
		}
	}
	return strings.ToLower(a.Address), nil
}

// digest is what the database keeps of a token. Tokens are random and long, so a
// plain hash does; passwords are not, see hashPassword.
func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func hashPassword(password string, rounds int) (string, error) {
	if len(password) < 8 || len(password) > 200 {
		return "", ErrPassword
	}
	salt := rand.Text()
	key, err := pbkdf2.Key(sha256.New, password, []byte(salt), rounds, 32)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %s %x", rounds, salt, key), nil
}

func checkPassword(hash, password string) bool {
	var rounds int
	var salt string
	var want []byte
	if _, err := fmt.Sscanf(hash, "%d %s %x", &rounds, &salt, &want); err != nil {
		return false
	}
	key, err := pbkdf2.Key(sha256.New, password, []byte(salt), rounds, len(want))
	return err == nil && subtle.ConstantTimeCompare(key, want) == 1
}

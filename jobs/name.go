package jobs

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
)

// maxWorkerName leaves room in reserved_by for the number of the claim.
const maxWorkerName = 80

// defaultName is unlike that of every other worker, one with the same host name
// and process id included: containers have those in common.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "host"
	}
	return cleanName(fmt.Sprintf("%.40s-%d", host, os.Getpid())) + "-" + strings.ToLower(rand.Text()[:8])
}

// cleanName keeps letters, digits and - of name. A dot ends it in a token.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, name)
	return name[:min(len(name), maxWorkerName)]
}

// workerOf is the name of the worker that has a token.
func workerOf(token string) string {
	name, _, _ := strings.Cut(token, ".")
	return name
}

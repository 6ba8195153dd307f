package docs

import (
	"os"
	"strings"
	"testing"
)

func TestReadmeHasTheProgramThatIsCompiled(t *testing.T) {
	readme := read(t, "../../README.md")
	program := read(t, "../../examples/hello/main.go")
	if !strings.Contains(readme, "```go\n"+program+"```\n") {
		t.Error("README.md does not have examples/hello/main.go as it is")
	}
}

func TestReadmeAndJobsHaveOneDiagramOfTheStates(t *testing.T) {
	readme := read(t, "../../README.md")
	_, diagram, _ := strings.Cut(read(t, "../../jobs/doc.go"), "//\n//\t")
	diagram, _, _ = strings.Cut(diagram, "\n//\n")
	diagram = strings.ReplaceAll(diagram, "\n//\t", "\n")
	if len(diagram) < 500 || !strings.Contains(readme, strings.TrimSpace(diagram)) {
		t.Errorf("README.md does not have the diagram of jobs/doc.go:\n%s", diagram)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

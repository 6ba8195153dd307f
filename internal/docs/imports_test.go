package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gormjobs/gormjobs"

// drivers are what no application gets from the library: two SQLite drivers of
// one name in a binary panic at its start.
var drivers = []string{
	"github.com/jackc/pgx", "github.com/lib/pq", "github.com/go-sql-driver", "modernc.org", "github.com/mattn",
	"github.com/glebarez", "github.com/libtnb", "github.com/ncruces", "gorm.io/driver", "gorm.io/plugin",
}

func TestLibraryLinksNoDriver(t *testing.T) {
	for _, path := range []string{"models", "dispatcher", "handlers", "jobs", "scheduler"} {
		t.Run(path, func(t *testing.T) { refuseImports(t, path, append(drivers, module+"/internal/testdb", "testing")) })
	}
}

// A web process that only enqueues links no worker and no cron.
func TestDispatcherStaysSmall(t *testing.T) {
	refuseImports(t, "dispatcher", []string{module + "/jobs", module + "/scheduler", module + "/handlers", "github.com/robfig"})
}

// Application packages import handlers, and must not drag in a worker.
func TestHandlersAndModelsLinkNoWorker(t *testing.T) {
	for _, path := range []string{"handlers", "models"} {
		refuseImports(t, path, []string{module + "/jobs", module + "/scheduler", module + "/dispatcher", "github.com/robfig"})
	}
}

func refuseImports(t *testing.T, path string, refused []string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "./"+path)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "gorm.io/gorm") {
		t.Fatalf("go list -deps ./%s has no gorm.io/gorm; want it to list what is linked", path)
	}
	for _, dep := range deps {
		for _, r := range refused {
			if dep == r || strings.HasPrefix(dep, r+"/") {
				t.Errorf("%s links %s; want nothing below %s", path, dep, r)
			}
		}
	}
}

// own are the rooms that start and watch servers, and need their names.
var own = []string{"internal/testdb", "internal/chaos", "bench"}

// Only internal/dialect asks which database this is; elsewhere the question would
// be about an ability, and hidden in a name.
func TestOnlyDialectAsksForTheDatabasesName(t *testing.T) {
	root := filepath.Join("..", "..")
	asked := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case d.IsDir() && (slices.Contains(own, rel) || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		for _, at := range namesDatabase(t, path) {
			if strings.HasPrefix(rel, "internal/dialect/") {
				asked++
				continue
			}
			t.Errorf("%s asks for the database's name; want a question in internal/dialect", at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if asked == 0 {
		t.Error("internal/dialect is not seen to ask either; want this test to find it")
	}
}

// namesDatabase finds strings that are a dialector's name, and calls of its Name.
func namesDatabase(t *testing.T, path string) (positions []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		found := false
		switch n := n.(type) {
		case *ast.BasicLit:
			found = n.Kind == token.STRING && slices.Contains([]string{"mysql", "postgres", "sqlite"}, strings.Trim(n.Value, "`\""))
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.SelectorExpr)
			found = n.Sel.Name == "Name" && ok && x.Sel.Name == "Dialector"
		}
		if found {
			positions = append(positions, fset.Position(n.Pos()).String())
		}
		return true
	})
	return positions
}

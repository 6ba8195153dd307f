// Package docs checks the documentation of the library's packages.
package docs

import (
	"errors"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packages that an application imports, where they exist.
var packages = []string{"models", "dispatcher", "handlers", "jobs", "jobs/pgnotify", "scheduler"}

// A package that others import explains itself, everything that it exports,
// and shows at least once, in an Example that runs, how it is used.
func TestLibraryIsDocumented(t *testing.T) {
	for _, path := range packages {
		t.Run(path, func(t *testing.T) {
			fset := token.NewFileSet()
			files := parse(t, fset, filepath.Join("..", "..", filepath.FromSlash(path)))
			if len(files) == 0 {
				return
			}
			p, err := doc.NewFromFiles(fset, files, "github.com/gormjobs/gormjobs/"+path)
			if err != nil {
				t.Fatal(err)
			}
			if p.Doc == "" {
				t.Error("no package comment")
			}
			if !hasRunnableExample(files) {
				t.Error("no Example with an // Output: comment")
			}
			c := check{t, fset}
			c.values(p.Consts)
			c.values(p.Vars)
			c.funcs("", p.Funcs)
			for _, typ := range p.Types {
				c.want(typ.Doc, typ.Decl.Pos(), typ.Name)
				c.members(typ)
				c.values(typ.Consts)
				c.values(typ.Vars)
				c.funcs("", typ.Funcs)
				c.funcs(typ.Name+".", typ.Methods)
			}
		})
	}
}

func parse(t *testing.T, fset *token.FileSet, dir string) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, e.Name()), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func hasRunnableExample(files []*ast.File) bool {
	for _, e := range doc.Examples(files...) {
		if e.Output != "" || e.EmptyOutput {
			return true
		}
	}
	return false
}

type check struct {
	t    *testing.T
	fset *token.FileSet
}

func (c check) want(comment string, pos token.Pos, name string) {
	c.t.Helper()
	if ast.IsExported(name[strings.LastIndex(name, ".")+1:]) && strings.TrimSpace(comment) == "" {
		c.t.Errorf("%s: %s has no comment", c.fset.Position(pos), name)
	}
}

func (c check) funcs(prefix string, funcs []*doc.Func) {
	for _, f := range funcs {
		switch f.Name {
		case "Error", "String", "Unwrap", "ServeHTTP": // everybody knows
			continue
		}
		c.want(f.Doc, f.Decl.Pos(), prefix+f.Name)
	}
}

// values: a comment above a group speaks for all of it.
func (c check) values(values []*doc.Value) {
	for _, v := range values {
		for _, s := range v.Decl.Specs {
			spec := s.(*ast.ValueSpec)
			for _, name := range spec.Names {
				c.want(v.Doc+spec.Doc.Text()+spec.Comment.Text(), name.Pos(), name.Name)
			}
		}
	}
}

// members: what is set field by field is explained field by field.
func (c check) members(typ *doc.Type) {
	if !strings.HasSuffix(typ.Name, "Config") && !strings.HasSuffix(typ.Name, "Options") {
		return
	}
	for _, s := range typ.Decl.Specs {
		x, ok := s.(*ast.TypeSpec).Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range x.Fields.List {
			for _, name := range f.Names {
				c.want(f.Doc.Text()+f.Comment.Text(), name.Pos(), typ.Name+"."+name.Name)
			}
		}
	}
}

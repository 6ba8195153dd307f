package main

import (
	"testing"

	"github.com/gormjobs/gormjobs/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

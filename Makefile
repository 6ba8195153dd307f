.DEFAULT_GOAL := help
.PHONY: help test test-long check vuln demo servers-stop

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Two test binaries at once: they share the database servers, and these want
# processors too. Not from the cache: the servers may have changed.
GOTEST = GORMJOBS_TEST_REQUIRE=all go test -race -count=1 -p 2 $(TESTFLAGS)

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo 'make test uses the servers that GORMJOBS_TEST_POSTGRES, GORMJOBS_TEST_MYSQL and'
	@echo 'GORMJOBS_TEST_MARIADB name (DSNs with which databases can be created). For each that'
	@echo 'is not set it starts a throw-away server, from what is installed or from Debian packages.'

test: ## run the tests on SQLite, PostgreSQL, MySQL and MariaDB, and get what is missing
	@bash internal/testdb/servers.sh setup all
	@$(GOTEST) -timeout 40m ./...

test-long: ## run the soaks and the million-row tests too
	@bash internal/testdb/servers.sh setup all
	@GORMJOBS_TEST_LONG=1 $(GOTEST) -p 1 -timeout 90m ./...

check: ## gofmt, go vet, staticcheck, documentation
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w $$unformatted"; exit 1; fi
	go vet ./...
	cd bench && CGO_ENABLED=0 go vet .
	go run $(STATICCHECK) ./...
	go test ./internal/docs

vuln: ## look for known vulnerabilities in what is linked, in the database at vuln.go.dev
	go run $(GOVULNCHECK) ./...

demo: ## watch jobs being enqueued, run, retried and shut down, on SQLite
	@go run ./examples/signup -demo

servers-stop: ## stop the throw-away servers now; they stop by themselves after two minutes
	@bash internal/testdb/servers.sh stop all

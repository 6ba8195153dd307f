//go:build linux

package main

import (
	"fmt"
	"strings"

	"gorm.io/gorm"
)

// keepDiary makes triggers write down every change of a job's row, in the
// transaction of the change: it says when a lease ended, and who did what, better
// than any process could.
func keepDiary(db *gorm.DB, kind string) error {
	for _, stmt := range diarySQL(kind) {
		if err := db.Exec(stmt).Error; err != nil {
			return fmt.Errorf("triggers of the diary: %w", err)
		}
	}
	return nil
}

// columns of chaos_diary, and what an insert, an update and a delete put there.
const (
	diaryColumns = "job_id, was_state, is_state, was_by, is_by, was_n, is_n, was_until, is_until, at"
	inserted     = "NEW.id, '', NEW.state, '', COALESCE(NEW.reserved_by, ''), 0, NEW.attempts, 0, COALESCE(NEW.reserved_until, 0)"
	updated      = "NEW.id, OLD.state, NEW.state, COALESCE(OLD.reserved_by, ''), COALESCE(NEW.reserved_by, ''), OLD.attempts, NEW.attempts, " +
		"COALESCE(OLD.reserved_until, 0), COALESCE(NEW.reserved_until, 0)"
	deleted = "OLD.id, OLD.state, '', COALESCE(OLD.reserved_by, ''), '', OLD.attempts, 0, COALESCE(OLD.reserved_until, 0), 0"
)

func diarySQL(kind string) []string {
	id, now := "BIGINT AUTO_INCREMENT PRIMARY KEY", "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))"
	switch kind {
	case "postgres":
		id, now = "BIGSERIAL PRIMARY KEY", "floor(extract(epoch from statement_timestamp())*1000000)::bigint"
	case "sqlite":
		id, now = "INTEGER PRIMARY KEY AUTOINCREMENT", "CAST(ROUND((julianday('now')-2440587.5)*86400000)*1000 AS INTEGER)"
	}
	all := []string{"CREATE TABLE chaos_diary (seq " + id + ", job_id BIGINT NOT NULL, was_state VARCHAR(16) NOT NULL, is_state VARCHAR(16) NOT NULL, " +
		"was_by VARCHAR(100) NOT NULL, is_by VARCHAR(100) NOT NULL, was_n INT NOT NULL, is_n INT NOT NULL, " +
		"was_until BIGINT NOT NULL, is_until BIGINT NOT NULL, at BIGINT NOT NULL)"}
	changed := "(OLD.state <> NEW.state OR COALESCE(OLD.reserved_by, '') <> COALESCE(NEW.reserved_by, '') OR OLD.attempts <> NEW.attempts OR " +
		"COALESCE(OLD.reserved_until, 0) <> COALESCE(NEW.reserved_until, 0))"
	for _, t := range []struct{ event, values, when string }{
		{"INSERT", inserted, ""}, {"UPDATE", updated, changed}, {"DELETE", deleted, ""},
	} {
		write := "INSERT INTO chaos_diary (" + diaryColumns + ") VALUES (" + t.values + ", " + now + ");"
		name := "chaos_" + strings.ToLower(t.event)
		switch kind {
		case "postgres":
			all = append(all, "CREATE FUNCTION "+name+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+write+" RETURN NULL; END $$")
			when := ""
			if t.when != "" {
				when = "WHEN (" + t.when + ") "
			}
			all = append(all, "CREATE TRIGGER "+name+" AFTER "+t.event+" ON queue_jobs FOR EACH ROW "+when+"EXECUTE FUNCTION "+name+"()")
		case "sqlite":
			when := ""
			if t.when != "" {
				when = "WHEN " + t.when + " "
			}
			all = append(all, "CREATE TRIGGER "+name+" AFTER "+t.event+" ON queue_jobs FOR EACH ROW "+when+"BEGIN "+write+" END")
		default:
			if t.when != "" {
				write = "IF " + t.when + " THEN " + write + " END IF;"
			}
			all = append(all, "CREATE TRIGGER "+name+" AFTER "+t.event+" ON queue_jobs FOR EACH ROW BEGIN "+write+" END")
		}
	}
	return all
}

package models

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/gormjobs/gormjobs/internal/dialect"
)

// JSON is JSON text, kept byte for byte: json on PostgreSQL, LONGTEXT in utf8mb4
// on MySQL and MariaDB, text on SQLite. Empty means none and is NULL.
type JSON string

// GormDBDataType implements GORM's migrator.GormDataTypeInterface.
func (JSON) GormDBDataType(db *gorm.DB, _ *schema.Field) string { return dialect.JSONType(db) }

// Value implements [driver.Valuer]. It is a string: PostgreSQL's simple protocol
// sends a []byte as bytea, which no json column takes.
func (j JSON) Value() (driver.Value, error) {
	if j == "" {
		return nil, nil
	}
	return string(j), nil
}

// Scan implements sql.Scanner. It takes whatever a damaged row may hold, so that
// one bad payload fails its own job and not the claim it is in.
func (j *JSON) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*j = ""
	case string:
		*j = JSON(v)
	case []byte:
		*j = JSON(v)
	default:
		*j = JSON(fmt.Sprint(v))
	}
	return nil
}

// MarshalJSON returns the text itself, or null. Of a damaged row it returns a
// string of the text, so that a list with that row can be shown.
func (j JSON) MarshalJSON() ([]byte, error) {
	switch {
	case j == "":
		return []byte("null"), nil
	case !json.Valid([]byte(j)):
		return json.Marshal(string(j))
	}
	return []byte(j), nil
}

// UnmarshalJSON keeps the text.
func (j *JSON) UnmarshalJSON(b []byte) error {
	*j = JSON(b)
	return nil
}

package session

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// ForCaller is like [In], but what it runs shows in the application's SQL log, as
// the statements of its own transaction: without their values, which are payloads.
func ForCaller(ctx context.Context, db *gorm.DB) (*gorm.DB, error) {
	s, err := In(ctx, db)
	if err != nil {
		return nil, err
	}
	if db.Logger != nil {
		s.Logger = withoutParams{db.Logger}
	}
	return s, nil
}

// withoutParams implements gorm.ParamsFilter.
type withoutParams struct{ logger.Interface }

func (withoutParams) ParamsFilter(_ context.Context, sql string, _ ...any) (string, []any) {
	return sql, nil
}

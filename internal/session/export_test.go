package session

import (
	"database/sql"

	"gorm.io/gorm"
)

// PreparedOn are the statements that [Prepared] keeps.
func PreparedOn(s *gorm.DB) (stmts []*sql.Stmt) {
	s.NamingStrategy.(*namer).prepared.Range(func(_, stmt any) bool {
		stmts = append(stmts, stmt.(*sql.Stmt))
		return true
	})
	return stmts
}

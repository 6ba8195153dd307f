package testdb

import "github.com/gormjobs/gormjobs/models"

var migrate = models.Migrate

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"github.com/gormjobs/gormjobs/internal/chaos/history"
	"github.com/gormjobs/gormjobs/models"
	"github.com/gormjobs/gormjobs/scheduler"
)

// collect reads all that is in the database.
func collect(db *gorm.DB) (history.Rows, error) {
	rows := history.Rows{Orders: map[string]bool{}}
	var keys []string
	if err := db.Model(&Order{}).Pluck("key", &keys).Error; err != nil {
		return rows, fmt.Errorf("read the orders: %w", err)
	}
	for _, k := range keys {
		rows.Orders[k] = true
	}
	var batch []models.Job
	err := db.FindInBatches(&batch, 5000, func(*gorm.DB, int) error {
		for i := range batch {
			j, err := finalRow(&batch[i])
			if err != nil {
				return err
			}
			rows.Jobs = append(rows.Jobs, j)
		}
		return nil
	}).Error
	if err != nil {
		return rows, fmt.Errorf("read the jobs: %w", err)
	}
	if err := db.Model(&models.Failure{}).Select("job_id AS job, attempt").Scan(&rows.Failures).Error; err != nil {
		return rows, fmt.Errorf("read the failures: %w", err)
	}
	var effects []Effect
	if err := db.Find(&effects).Error; err != nil {
		return rows, fmt.Errorf("read the effects: %w", err)
	}
	for _, e := range effects {
		rows.Effects = append(rows.Effects, history.Effect{Job: e.Job, Ref: e.Ref, Token: e.Token})
	}
	return rows, readDiary(db, &rows)
}

func finalRow(m *models.Job) (history.Job, error) {
	j := history.Job{
		ID: m.ID, State: string(m.State), Attempts: m.Attempts, MaxAttempts: m.MaxAttempts, Token: m.ReservedBy,
		CreatedAt: int64(m.CreatedAt), FinishedAt: int64(m.FinishedAt), Tx: m.Type == book{}.JobType(),
	}
	if m.UniqueKey != nil {
		j.Key = *m.UniqueKey
	}
	var p struct {
		Ref   string `json:"ref"`
		Entry string `json:"entry"`
	}
	if err := json.NewDecoder(strings.NewReader(string(m.Payload))).Decode(&p); err != nil {
		return j, fmt.Errorf("payload of job %d: %w", m.ID, err)
	}
	j.Ref, j.Entry = p.Ref, p.Entry
	if at, ok := scheduler.Tick(m); ok {
		j.Tick = at.Unix()
	}
	return j, nil
}

func readDiary(db *gorm.DB, rows *history.Rows) error {
	r, err := db.Raw("SELECT " + diaryColumns + " FROM chaos_diary ORDER BY seq").Rows()
	if err != nil {
		return fmt.Errorf("read the diary: %w", err)
	}
	defer r.Close()
	for r.Next() {
		var c history.Change
		if err := r.Scan(&c.Job, &c.Was, &c.Is, &c.WasToken, &c.IsToken, &c.WasAttempts, &c.Attempts, &c.WasUntil, &c.Until, &c.At); err != nil {
			return fmt.Errorf("read the diary: %w", err)
		}
		rows.Diary = append(rows.Diary, c)
	}
	return r.Err()
}

package handlers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gormjobs/gormjobs/handlers"
	"github.com/gormjobs/gormjobs/models"
)

type card struct {
	Number int32     `json:"number"`
	Until  time.Time `json:"until"`
}

func (card) JobType() string { return "card" }

// What cannot be decoded is recorded and logged; what it was is not.
func TestDecodingErrorHasNoValueOfThePayload(t *testing.T) {
	reg := handlers.NewRegistry()
	handlers.Register(reg, func(context.Context, card) error { return nil })
	h, _ := reg.Lookup("card")
	for _, c := range []struct {
		payload models.JSON
		says    string
	}{
		{`{"number": 4111111111111111}`, "card.number"},
		{`{"number": "4111111111111111"}`, "card.number"},
		{`{"until": "4111111111111111"}`, "a time"},
		{`{"until": "2026-13-41T11:11:11Z 1111 1111"}`, "a time"},
		{`{"number" 4111111111111111}`, "after object key"},
		{`4111111111111111`, "number"},
	} {
		err := h.Run(t.Context(), &models.Job{ID: 7, Type: "card", Payload: c.payload})
		if err == nil || !strings.Contains(err.Error(), "job 7") || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "11") {
			t.Errorf("%s: %v; want an error that says %q and has no value", c.payload, err, c.says)
		}
	}
}

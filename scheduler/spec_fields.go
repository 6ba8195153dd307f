package scheduler

import (
	"fmt"
	"strconv"
	"strings"
)

var specFields = []struct {
	name, takes string
	size        int
}{
	{"second", "0-59", 60},
	{"minute", "0-59", 60},
	{"hour", "0-23", 24},
	{"day of month", "1-31", 31},
	{"month", "1-12 or JAN-DEC", 12},
	{"day of week", "0-6 or SUN-SAT (Sunday is 0)", 7},
}

// checkFields finds the field that is wrong, which the library's errors do not
// name, and refuses what the library reads as something that nobody meant.
func checkFields(fields []string) error {
	skip := len(specFields) - len(fields)
	if skip != 0 && skip != 1 {
		return fmt.Errorf(`has %d fields; write five, "minute hour day-of-month month day-of-week", or six with seconds first`, len(fields))
	}
	for i, text := range fields {
		f := specFields[skip+i]
		if err := checkField(skip+i, text); err != nil {
			return fmt.Errorf("has a wrong %s %q (%w); write %s, or *, with lists 1,2, ranges 1-3 and steps */2", f.name, text, err, f.takes)
		}
	}
	return nil
}

func checkField(i int, text string) error {
	for item := range strings.SplitSeq(text, ",") {
		values, step, _ := strings.Cut(item, "/")
		switch n, err := strconv.Atoi(step); {
		case isZone(text):
			return fmt.Errorf("a time zone stands once, before the fields")
		case item == "":
			return fmt.Errorf("an empty item in a list")
		case strings.HasPrefix(values, "*-") || strings.HasPrefix(values, "?-"):
			return fmt.Errorf("a range from %s", values[:1]) // the library drops what follows
		case err == nil && n >= specFields[i].size:
			// Every 90 minutes would be every hour: a step begins anew in each.
			return fmt.Errorf(`step %d leaves the field; a longer period is written "@every 90m"`, n)
		}
	}
	alone := []string{"*", "*", "*", "*", "*", "*"}
	alone[i] = text
	_, err := parser.Parse(strings.Join(alone, " "))
	return err
}

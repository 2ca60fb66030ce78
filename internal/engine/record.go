package engine

import (
	"github.com/fumehood-dev/fumehood/sandbox"
)

// save puts the record into the store.
func (s *Sandbox) save() error { return s.amend(func(*sandbox.Record) {}) }

// amend changes the record, first in the store, and in memory if the store has it: no answer reports what the next
// server would not find. change is called twice, with mu held, and assigns to fields; it is the only way to change the
// record of a living sandbox.
func (s *Sandbox) amend(change func(*sandbox.Record)) error {
	s.locks.saving.Lock()
	defer s.locks.saving.Unlock()
	s.mu.Lock()
	record := s.record
	change(&record)
	s.mu.Unlock()
	if err := s.store(record); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.record)
	return nil
}

// store puts a record into the store. The caller holds locks.saving, so that an older one never replaces a newer one.
func (s *Sandbox) store(record sandbox.Record) error {
	if s.engine.config.Living.Store == nil || s.oneShot {
		return nil
	}
	if !record.Ended.IsZero() {
		record = tombstone(record)
	}
	return s.engine.config.Living.Store.Save(record)
}

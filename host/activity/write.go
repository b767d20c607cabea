package activity

import (
	"context"
	"time"

	"browserhost"
)

// ready refuses a call while rows cannot be written. It first tries to write
// the row that says how many are lost, which is also how the record recovers.
func (r *Recorder) ready(ctx context.Context) error {
	r.mu.Lock()
	broken, lost := r.broken, r.lost
	r.mu.Unlock()
	if !broken {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	gap := Row{
		At: browserhost.FormatTime(r.opts.Now()), Protocol: ProtocolHTTP, Direction: "inbound", Method: "record resumed",
		Actor: browserhost.System, OK: true, Lost: lost,
	}
	err := r.put(ctx, gap, true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return browserhost.Hide(browserhost.CodeInternal, err, "the host cannot write its activity record, so nothing was done").State(browserhost.NotStarted)
	}
	r.lost -= lost
	return nil
}

// write keeps a row: in the ring, in the file, and, where it tells of an
// effect, on the disk. A call that was cancelled is recorded all the same.
func (r *Recorder) write(ctx context.Context, row Row) error {
	r.remember(row)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	now := row.Execution == browserhost.Completed || row.Execution == browserhost.OutcomeUnknown
	err := r.put(ctx, row, now)
	if err != nil {
		r.mu.Lock()
		r.lost++
		r.mu.Unlock()
	}
	return err
}

// put appends a row, and waits for the disk now or leaves that to the group.
func (r *Recorder) put(ctx context.Context, row Row, now bool) error {
	_, _, err := r.opts.Rows.Append(ctx, row)
	switch {
	case err != nil:
	case now || !r.later():
		err = r.opts.Rows.Durable(ctx)
	}
	r.mu.Lock()
	r.broken = err != nil
	r.mu.Unlock()
	if err != nil {
		r.opts.Log.Error("the activity record cannot be written", "err", err)
	}
	return err
}

// later arranges the group's write; it reports false when the recorder is closed.
func (r *Recorder) later() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.timer == nil {
		r.writes.Add(1)
		r.timer = time.AfterFunc(groupTime, r.group)
	}
	return true
}

func (r *Recorder) group() {
	defer r.writes.Done()
	r.mu.Lock()
	r.timer = nil // a row appended from here on needs a write of its own
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	if err := r.opts.Rows.Durable(ctx); err != nil {
		r.mu.Lock()
		r.broken = true
		r.mu.Unlock()
		r.opts.Log.Error("the activity record cannot be written", "err", err)
	}
}

func (r *Recorder) remember(row Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) < ringSize {
		r.ring = append(r.ring, row)
		r.next = len(r.ring) % ringSize
		return
	}
	r.ring[r.next] = row
	r.next = (r.next + 1) % ringSize
}

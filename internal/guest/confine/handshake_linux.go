package confine

import (
	"encoding/binary"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A guest's descriptors, besides the null device as 0, 1 and 2.
const (
	SetupFD  = 3 // a stream socket: receives the plan, sends the outcome, then is the lifeline
	ListenFD = 4 // a listening unix socket, which the host dials
	// 5 is the claim on host user ids, held while the guest lives; otherwise the null device.
	ProgramFD = 6 // the guest program itself, to execute
	// 7 is the lock of the image that is the root, held like 5; otherwise the null device.
)

// maxPlan bounds a plan in bytes, MaxFDs its detached mounts (the kernel accepts 253 in one message).
const (
	maxPlan = 4 << 20
	MaxFDs  = 250
)

// ReceivePlan reads a plan and the descriptors that come with its first byte: a 4-byte little-endian length, then the
// plan.
func ReceivePlan(setup *os.File) (*Plan, []int, error) {
	fd := int(setup.Fd())
	var length [4]byte
	oob := make([]byte, unix.CmsgSpace(4*MaxFDs))
	n, oobn, _, _, err := unix.Recvmsg(fd, length[:], oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
	if err != nil {
		return nil, nil, err
	}
	if n != len(length) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	fds, err := descriptors(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	size := binary.LittleEndian.Uint32(length[:])
	if size > maxPlan {
		return nil, nil, errors.New("the plan is too long")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(setup, body); err != nil {
		return nil, nil, err
	}
	p := &Plan{}
	if err := p.Parse(body); err != nil {
		return nil, nil, err
	}
	if p.FailAt == StepPlan {
		return nil, nil, unix.EIO
	}
	return p, fds, nil
}

func descriptors(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, m := range messages {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// Report sends the outcome of the set-up: a 4-byte little-endian length, then the failure, which is empty on success.
func Report(setup *os.File, f *Failure) error {
	body := f.Append(nil)
	_, err := setup.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

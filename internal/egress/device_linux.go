package egress

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	// bytes of the largest packet, before it is segmented
	maxSegment = 65535
	maxFrame   = offloadSize + header.EthernetMinimumSize + maxSegment // as the device has it
	// of a frame that is written at once; a frame with more pieces is copied
	maxPieces = 16
)

// frameBuffers are for reading. An idle device holds none.
var frameBuffers = sync.Pool{New: func() any { return new([maxFrame]byte) }}

// device is the stack's end of the link: a TAP device whose frames follow a virtio-net header, on the runtime's poller.
// It replaces gVisor's fdbased endpoint, which stops for good at one frame with a foreign hardware address, and does
// not segment on TAP devices.
type device struct {
	file *os.File
	raw  syscall.RawConn
	gate *gate
	pace *pace // of the frames in both directions
	up   stack.NetworkDispatcher
	done chan struct{} // closed at the end of reading

	fragments fragments

	writing sync.RWMutex // a frame being written holds it shared, so that close waits
	fd      int          // -1 once closed
	closing sync.Once
	err     error // of closing
}

func newDevice(g *gate, file *os.File) (*device, error) {
	if err := file.SetReadDeadline(time.Time{}); err != nil {
		return nil, &sandbox.Error{Op: "device", Msg: "it is not in non-blocking mode", Err: err}
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, &sandbox.Error{Op: "device", Err: err}
	}
	d := &device{file: file, raw: raw, gate: g, pace: g.meter.pace, done: make(chan struct{})}
	err = raw.Control(func(fd uintptr) { d.fd = int(fd) })
	return d, err
}

// read passes frames to the stack until the device ends or is closed.
func (d *device) read() {
	defer close(d.done)
	defer d.gate.contain()
	for d.pace.wait(d.gate.ending.ctx) == nil {
		var end error
		if err := d.raw.Read(func(fd uintptr) bool {
			end = d.drain(int(fd))
			return !errors.Is(end, unix.EAGAIN)
		}); err != nil || end != nil {
			return
		}
	}
}

// drain reads until there is nothing to read, or the gate must rest, and returns why it stopped: nil is a rest.
func (d *device) drain(fd int) error {
	b := frameBuffers.Get().(*[maxFrame]byte)
	defer frameBuffers.Put(b)
	for !d.pace.inDebt() {
		n, err := unix.Read(fd, b[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n > offloadSize:
			d.pace.spend(frameCost(n))
			d.deliver(b[offloadSize:n])
		}
	}
	return nil
}

func (d *device) deliver(b []byte) {
	p := filterPacket(b)
	if p.pass && p.fragment && !d.fragments.admit(d.gate.meter) {
		p.pass, p.reason = false, noFragments
	}
	if !p.pass {
		if p.reason != "" {
			d.gate.logDropped(p)
		}
		return
	}
	b = b[:header.EthernetMinimumSize+p.size]
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(buffer.NewViewWithData(b))})
	defer pkt.DecRef()
	if _, ok := pkt.LinkHeader().Consume(header.EthernetMinimumSize); ok {
		d.up.DeliverNetworkPacket(p.protocol, pkt)
	}
}

// WritePackets implements stack.LinkWriter. A packet that the device does not accept at once is lost, as on any link.
func (d *device) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	defer d.gate.contain()
	d.writing.RLock()
	defer d.writing.RUnlock()
	if d.fd < 0 {
		return 0, &tcpip.ErrClosedForSend{}
	}
	n := 0
	for _, pkt := range list.AsSlice() {
		d.pace.spend(frameCost(pkt.Size()))
		d.write(pkt)
		n++
	}
	return n, nil
}

func (d *device) write(pkt *stack.PacketBuffer) {
	var head [offloadSize]byte
	o := offloadOf(pkt)
	o.encode(head[:])
	var space [maxPieces][]byte
	pieces := append(space[:0], head[:])
	views, unused := pkt.AsViewList() // unused is room for more headers, in front
	for v := views.Front(); v != nil; v = v.Next() {
		piece := v.AsSlice()
		skip := min(unused, len(piece))
		if unused -= skip; skip == len(piece) {
			continue
		}
		if len(pieces) == maxPieces {
			whole := pkt.ToView()
			defer whole.Release()
			pieces = append(space[:1], whole.AsSlice())
			break
		}
		pieces = append(pieces, piece[skip:])
	}
	for {
		if _, err := unix.Writev(d.fd, pieces); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// offloadOf leaves checksum and segmentation to the sandbox's kernel if the stack has not done them.
func offloadOf(pkt *stack.PacketBuffer) offload {
	gso := &pkt.GSOOptions
	if gso.Type == stack.GSONone || !gso.NeedsCsum {
		return offload{}
	}
	o := offload{
		flags:   offloadChecksum,
		headers: uint16(pkt.HeaderSize()),
		start:   header.EthernetMinimumSize + gso.L3HdrLen,
		offset:  gso.CsumOffset,
	}
	if pkt.Data().Size() <= int(gso.MSS) {
		return o
	}
	switch o.segment = gso.MSS; gso.Type {
	case stack.GSOTCPv4:
		o.kind = offloadTCP4
	case stack.GSOTCPv6:
		o.kind = offloadTCP6
	}
	return o
}

// offload is the virtio-net header (linux/virtio_net.h) that precedes a frame: the part of TCP's checksum and
// segmentation that the writer leaves to the reader.
type offload struct {
	flags, kind      uint8
	headers, segment uint16
	start, offset    uint16
}

const (
	offloadSize     = 10
	offloadChecksum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
	offloadTCP4     = 1 // VIRTIO_NET_HDR_GSO_TCPV4
	offloadTCP6     = 4
)

// encode writes the header in the machine's byte order, as a TAP device has it without TUNSETVNETLE.
func (o *offload) encode(b []byte) {
	b[0], b[1] = o.flags, o.kind
	binary.NativeEndian.PutUint16(b[2:], o.headers)
	binary.NativeEndian.PutUint16(b[4:], o.segment)
	binary.NativeEndian.PutUint16(b[6:], o.start)
	binary.NativeEndian.PutUint16(b[8:], o.offset)
}

// close ends reading and writing, and waits for both.
func (d *device) close() error {
	d.closing.Do(func() {
		d.writing.Lock()
		d.fd = -1
		d.writing.Unlock()
		d.err = d.file.Close()
	})
	<-d.done
	d.fragments.end()
	return d.err
}

// AddHeader implements stack.NetworkLinkEndpoint. There are only two ends, so addresses need no resolution.
func (d *device) AddHeader(pkt *stack.PacketBuffer) {
	header.Ethernet(pkt.LinkHeader().Push(header.EthernetMinimumSize)).Encode(&header.EthernetFields{
		SrcAddr: tcpip.LinkAddress(sandbox.LinkGatewayHardware),
		DstAddr: tcpip.LinkAddress(sandbox.LinkHardware),
		Type:    pkt.NetworkProtocolNumber,
	})
}

// Attach implements stack.NetworkLinkEndpoint.
func (d *device) Attach(up stack.NetworkDispatcher) {
	if up != nil {
		d.up = up
	}
}

// The rest of stack.LinkEndpoint.
func (d *device) MTU() uint32             { return sandbox.LinkMTU }
func (d *device) SetMTU(uint32)           {}
func (d *device) MaxHeaderLength() uint16 { return header.EthernetMinimumSize }
func (d *device) LinkAddress() tcpip.LinkAddress {
	return tcpip.LinkAddress(sandbox.LinkGatewayHardware)
}
func (d *device) SetLinkAddress(tcpip.LinkAddress)        {}
func (d *device) IsAttached() bool                        { return d.up != nil }
func (d *device) Wait()                                   {}
func (d *device) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
func (d *device) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (d *device) Close()                                  {}
func (d *device) SetOnCloseAction(func())                 {}

// Capabilities implements stack.NetworkLinkEndpoint. The sandbox's kernel omits checksums, and the link loses no
// bits.
func (d *device) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}

// GSOMaxSize implements stack.GSOEndpoint.
func (d *device) GSOMaxSize() uint32 { return maxSegment }

// SupportedGSO implements stack.GSOEndpoint.
func (d *device) SupportedGSO() stack.SupportedGSO { return stack.HostGSOSupported }

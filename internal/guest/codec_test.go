package guest

import (
	"math"
	mathrand "math/rand"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/quick"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// allTypes lists every type of the protocol.
func allTypes() []Type {
	var types []Type
	for t := TypeHello; t <= TypePark; t++ {
		types = append(types, t)
	}
	return types
}

func TestEveryTypeHasItsMessage(t *testing.T) {
	for _, typ := range allTypes() {
		if m := newMessage(typ); m == nil || m.MessageType() != typ {
			t.Errorf("newMessage(%d) = %T", typ, m)
		}
	}
	for _, typ := range []Type{0, TypePark + 1, 255} {
		if m := newMessage(typ); m != nil {
			t.Errorf("newMessage(%d) = %T, want nil", typ, m)
		}
	}
}

// newMessage returns an empty message of the type, or nil for an unknown type.
func newMessage(t Type) Message {
	if t == 0 || int(t) >= len(makers) {
		return nil
	}
	return makers[t]()
}

var makers = [...]func() Message{
	TypeHello:       func() Message { return new(Hello) },
	TypeWelcome:     func() Message { return new(Welcome) },
	TypeStart:       func() Message { return new(Start) },
	TypeStarted:     func() Message { return new(Started) },
	TypeAttach:      func() Message { return new(Attach) },
	TypeOutput:      func() Message { return new(Output) },
	TypeExited:      func() Message { return new(Exited) },
	TypeInput:       func() Message { return new(Input) },
	TypeAccepted:    func() Message { return new(Accepted) },
	TypeAck:         func() Message { return new(Ack) },
	TypeSignal:      func() Message { return new(Signal) },
	TypeResize:      func() Message { return new(Resize) },
	TypeList:        func() Message { return new(List) },
	TypeProcesses:   func() Message { return new(Processes) },
	TypeWait:        func() Message { return new(Wait) },
	TypeKillAll:     func() Message { return new(KillAll) },
	TypeLease:       func() Message { return new(Lease) },
	TypeReborn:      func() Message { return new(Reborn) },
	TypeShutdown:    func() Message { return new(Shutdown) },
	TypeStat:        func() Message { return new(Stat) },
	TypeReadFile:    func() Message { return new(ReadFile) },
	TypeWriteFile:   func() Message { return new(WriteFile) },
	TypeListDir:     func() Message { return new(ListDir) },
	TypeMakeDir:     func() Message { return new(MakeDir) },
	TypeMove:        func() Message { return new(Move) },
	TypeRemove:      func() Message { return new(Remove) },
	TypeWatch:       func() Message { return new(Watch) },
	TypeChanged:     func() Message { return new(Changed) },
	TypePack:        func() Message { return new(Pack) },
	TypeUnpack:      func() Message { return new(Unpack) },
	TypeUnpacked:    func() Message { return new(Unpacked) },
	TypeFileInfo:    func() Message { return new(FileInfo) },
	TypeData:        func() Message { return new(Data) },
	TypeDone:        func() Message { return new(Done) },
	TypeFailed:      func() Message { return new(Failed) },
	TypeAdopt:       func() Message { return new(Adopt) },
	TypeHold:        func() Message { return new(Hold) },
	TypeDial:        func() Message { return new(Dial) },
	TypeDialed:      func() Message { return new(Dialed) },
	TypeMemory:      func() Message { return new(Memory) },
	TypeMemoryState: func() Message { return new(MemoryState) },
	TypePark:        func() Message { return new(Park) },
}

// fill sets every field of v, reached by reflection so that a field that the codec forgets is found.
func fill(t testing.TB, v reflect.Value, r *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(0, 1+r.Int64N(math.MaxInt64))))
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), r)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			fill(t, v.Index(i), r)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("text \x00\xff" + string(rune('a'+r.IntN(26))))
	case reflect.Int32:
		v.SetInt(-1 - int64(r.Uint32()>>1))
	case reflect.Int64:
		n := 1 + r.Int64N(math.MaxInt64)
		if v.Type() != reflect.TypeFor[time.Duration]() {
			n = -n
		}
		v.SetInt(n)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1 + r.Uint64N(1<<v.Type().Bits()-1))
	default:
		t.Fatalf("no rule for %s", v.Type())
	}
}

func TestEveryFieldSurvives(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range allTypes() {
		for range 20 {
			m, back := newMessage(typ), newMessage(typ)
			fill(t, reflect.ValueOf(m).Elem(), r)
			if err := Parse(Append(nil, m), back); err != nil {
				t.Fatalf("%T: %v", m, err)
			}
			if !reflect.DeepEqual(m, back) {
				t.Fatalf("%T\nsent %+v\ngot  %+v", m, m, back)
			}
		}
	}
}

func TestZeroMessagesAreEmpty(t *testing.T) {
	for _, typ := range allTypes() {
		if b := Append(nil, newMessage(typ)); len(b) != 0 {
			t.Errorf("an empty %T takes %d bytes", newMessage(typ), len(b))
		}
	}
}

// A newer peer's fields must not disturb an older one.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	m := Ack{ID: "x", Stdout: 7, Exit: true}
	b := Append([]byte{200<<1&0x7f | 0x80, 200 << 1 >> 7, 5}, &m) // tag 200, a varint
	b = append(b, 201<<1&0x7f|1|0x80, 201<<1>>7, 3, 'a', 'b', 'c')
	var back Ack
	if err := Parse(b, &back); err != nil || back != m {
		t.Fatalf("%+v, %v", back, err)
	}
}

// A peer may send fields in any order; nothing is left of what a message held before.
func TestFieldsInAnyOrder(t *testing.T) {
	var body []byte
	for _, part := range []Start{{Env: []string{"B=b"}}, {KillTree: true}, {ID: "x", Env: []string{"C=c"}},
		{Limits: []Rlimit{{1, 2}}}, {Dir: "/"}} {
		body = Append(body, &part)
	}
	m := Start{ID: "old", Argv: []string{"old"}, Rows: 7, Limits: []Rlimit{{3, 4}}}
	want := Start{ID: "x", Env: []string{"B=b", "C=c"}, KillTree: true, Limits: []Rlimit{{1, 2}}, Dir: "/"}
	if err := Parse(body, &m); err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("%+v, %v; want %+v", m, err, want)
	}
}

func TestMalformedBodies(t *testing.T) {
	for name, c := range map[string]struct {
		m    Message
		body string
	}{
		"cut varint":            {new(Done), "\x10\xff"},
		"cut key":               {new(Done), "\x80"},
		"varint of 11 bytes":    {new(Done), "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		"length past the end":   {new(Wait), "\x03\x05abc"},
		"huge length":           {new(Wait), "\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		"number for a string":   {new(Wait), "\x02\x05"},
		"string for a number":   {new(Done), "\x05\x01a"},
		"truth of 2":            {new(Done), "\x02\x02"},
		"uint16 of 65536":       {new(Resize), "\x04\x80\x80\x04"},
		"negative duration":     {new(Lease), "\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
		"int32 of 2^31":         {new(Started), "\x02\x80\x80\x80\x80\x10"},
		"nested message is bad": {new(Processes), "\x03\x01\x80"},
	} {
		if err := Parse([]byte(c.body), c.m); err == nil {
			t.Errorf("%s: parsed as %+v", name, c.m)
		}
	}
}

func TestListsAreBounded(t *testing.T) {
	many := Processes{Processes: make([]ProcessInfo, MaxProcesses+1)}
	if err := Parse(Append(nil, &many), new(Processes)); err == nil {
		t.Error("more processes than MaxProcesses were taken")
	}
	start := Start{Limits: make([]Rlimit, MaxLimits+1)}
	if err := Parse(Append(nil, &start), new(Start)); err == nil {
		t.Error("more limits than MaxLimits were taken")
	}
}

func TestQuickOutput(t *testing.T) {
	check := func(stderr bool, offset uint64, data []byte) bool {
		m := Output{Stream: sandbox.Stdout, Offset: offset, Data: data}
		if stderr {
			m.Stream = sandbox.Stderr
		}
		var back Output
		err := Parse(Append(nil, &m), &back)
		return err == nil && back.Stream == m.Stream && back.Offset == offset && string(back.Data) == string(data)
	}
	if err := quick.Check(check, &quick.Config{Rand: mathrand.New(mathrand.NewSource(1))}); err != nil {
		t.Error(err)
	}
}

// FuzzParse feeds every message type: whatever parses must survive another round unchanged.
func FuzzParse(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, typ := range allTypes() {
		m := newMessage(typ)
		fill(f, reflect.ValueOf(m).Elem(), r)
		f.Add(uint8(typ), Append(nil, m))
	}
	f.Add(uint8(TypeStart), []byte{})
	f.Fuzz(func(t *testing.T, typ uint8, body []byte) {
		m := newMessage(Type(typ))
		if m == nil || Parse(body, m) != nil {
			return
		}
		b := Append(nil, m)
		again := newMessage(Type(typ))
		if err := Parse(b, again); err != nil {
			t.Fatalf("%T: own encoding: %v", m, err)
		}
		if string(Append(nil, again)) != string(b) {
			t.Fatalf("%T: %+v became %+v", m, m, again)
		}
	})
}

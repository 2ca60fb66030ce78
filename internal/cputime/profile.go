package cputime

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of fields in https://github.com/google/pprof/blob/main/proto/profile.proto.
const (
	profileSample  = 2
	profileStrings = 6
	sampleValue    = 2 // twice: the number of samples, and their CPU time in nanoseconds
	sampleLabel    = 3
	labelKey       = 1 // an index of the strings, as the next
	labelText      = 2
)

// sample is the CPU time of one stack with its labels, by the indices of their strings.
type sample struct {
	nanoseconds uint64
	labels      [][2]uint64
}

// decode returns the CPU time of each client in a profile of the Go runtime.
func decode(profile []byte) (map[string]time.Duration, error) {
	var samples []sample
	var texts []string
	err := fields(profile, func(number protowire.Number, _ uint64, message []byte) error {
		switch number {
		case profileStrings:
			texts = append(texts, string(message))
		case profileSample:
			s, err := decodeSample(message)
			samples = append(samples, s)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	clients := map[string]time.Duration{}
	for _, s := range samples {
		for _, l := range s.labels {
			if l[0] >= uint64(len(texts)) || l[1] >= uint64(len(texts)) || texts[l[0]] != label {
				continue
			}
			if client := texts[l[1]]; client != "" { // see Without
				clients[client] += time.Duration(s.nanoseconds)
			}
		}
	}
	return clients, nil
}

func decodeSample(message []byte) (s sample, err error) {
	err = fields(message, func(number protowire.Number, value uint64, part []byte) error {
		switch number {
		case sampleValue:
			s.nanoseconds = value // the last one
		case sampleLabel:
			var l [2]uint64
			if err := fields(part, func(number protowire.Number, v uint64, _ []byte) error {
				if number == labelKey || number == labelText {
					l[number-labelKey] = v
				}
				return nil
			}); err != nil {
				return err
			}
			s.labels = append(s.labels, l)
		}
		return nil
	})
	return s, err
}

// fields calls each with the number of each field of a message, and its value or its bytes.
func fields(message []byte, each func(number protowire.Number, value uint64, bytes []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var value uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := each(number, value, bytes); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

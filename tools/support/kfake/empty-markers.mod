module spark-kafka-sink/kfake

go 1.26

require github.com/twmb/franz-go/pkg/kfake v0.0.0-20260515175617-8268a5d078c0

require (
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/pierrec/lz4/v4 v4.1.26 // indirect
	github.com/twmb/franz-go v1.21.7 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.13.1 // indirect
	golang.org/x/crypto v0.51.0 // indirect
)

// Run kfake, the fake Kafka cluster of franz-go, until standard input is closed.
//
// Usage: kfake PORT... (one broker for each port)
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	var ports []int
	for _, argument := range os.Args[1:] {
		port, err := strconv.Atoi(argument)
		exitIf(err)
		ports = append(ports, port)
	}
	cluster, err := kfake.NewCluster(
		kfake.Ports(ports...),
		kfake.NumBrokers(len(ports)),
		kfake.DefaultNumPartitions(4),
		kfake.AllowAutoTopicCreation(),
		kfake.WithLogger(kfake.BasicLogger(os.Stderr, kfake.LogLevelWarn)),
	)
	exitIf(err)
	defer cluster.Close()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func exitIf(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

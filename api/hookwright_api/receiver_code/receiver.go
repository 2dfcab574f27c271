// A receiver of webhooks in Go, with the standard library alone.
// Start it with: WEBHOOK_SECRET=whsec_... go run receiver.go
package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const tolerance = 300 // seconds

// Anybody can sign with an empty secret.
var errMissing = errors.New("the secret must be whsec_ and base64")

func sign(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Verify checks webhook-signature (Standard Webhooks). An error means: refuse the request.
func Verify(secret string, headers http.Header, body []byte) error {
	encoded, prefixed := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !prefixed {
		return errMissing
	}
	timestamp := headers.Get("webhook-timestamp")
	signed := []byte(headers.Get("webhook-id") + "." + timestamp + ".")
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(sign(key, signed, body)))
	found := false
	// During a rotation the header has one value for each secret. hmac.Equal runs in constant time.
	for _, value := range strings.Fields(headers.Get("webhook-signature")) {
		found = hmac.Equal([]byte(value), expected) || found
	}
	if !found {
		return errors.New("wrong signature")
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if age := time.Now().Unix() - seconds; err != nil || age > tolerance || age < -tolerance {
		return errors.New("the request is too old")
	}
	return nil
}

// VerifyServiceSignature checks X-Service-Signature, which does not cover the time.
func VerifyServiceSignature(secret string, headers http.Header, body []byte) error {
	if !strings.HasPrefix(secret, "whsec_") {
		return errMissing
	}
	expected := hex.EncodeToString(sign([]byte(secret), body))
	if !hmac.Equal([]byte(headers.Get("X-Service-Signature")), []byte(expected)) {
		return errors.New("wrong signature")
	}
	return nil
}

// --- a server that uses one of the two ---

func receive(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, 4<<20))
	if err != nil {
		http.Error(response, "the body is incomplete", http.StatusBadRequest)
		return
	}
	check := Verify
	if request.URL.Path == "/service-signature" {
		check = VerifyServiceSignature
	}
	if err := check(os.Getenv("WEBHOOK_SECRET"), request.Header, body); err != nil {
		http.Error(response, err.Error(), http.StatusUnauthorized)
		return
	}
	// Store the event under its webhook-id here, and work on it later. A known id is a repetition: answer 204 too.
	fmt.Println("accepted", request.Header.Get("webhook-id"))
	response.WriteHeader(http.StatusNoContent)
}

func main() {
	log.Fatal(http.ListenAndServe("127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "8080"), http.HandlerFunc(receive)))
}

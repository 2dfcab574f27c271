# A receiver of webhooks in Ruby 3.0 or newer. The verification needs no gem; the server needs webrick.
# Start it with: WEBHOOK_SECRET=whsec_... ruby receiver.rb
require "openssl"
require "webrick"

TOLERANCE = 300 # seconds

# Return the secret; raise ArgumentError if it is missing, because anybody can sign with an empty one.
def known(secret)
  secret.start_with?("whsec_") ? secret : raise(ArgumentError, "the secret must begin with whsec_")
end

# Check webhook-signature (Standard Webhooks); raise ArgumentError if the request must be refused.
def verify(secret, headers, body)
  key = known(secret).delete_prefix("whsec_").unpack1("m")
  timestamp = headers["webhook-timestamp"].to_s
  signed = "#{headers["webhook-id"]}.#{timestamp}.".b + body
  expected = "v1," + [OpenSSL::HMAC.digest("SHA256", key, signed)].pack("m0")
  # During a rotation the header has one value for each secret. secure_compare runs in constant time.
  given = headers["webhook-signature"].to_s.split
  raise ArgumentError, "wrong signature" unless given.any? { |value| OpenSSL.secure_compare(value, expected) }
  raise ArgumentError, "the request is too old" if (Time.now.to_i - Integer(timestamp, 10)).abs > TOLERANCE
end

# Check X-Service-Signature, which does not cover the time; raise ArgumentError if the request must be refused.
def verify_service_signature(secret, headers, body)
  expected = OpenSSL::HMAC.hexdigest("SHA256", known(secret), body)
  given = headers["X-Service-Signature"].to_s
  raise ArgumentError, "wrong signature" unless OpenSSL.secure_compare(given, expected)
end

# --- a server that uses one of the two ---

if $PROGRAM_NAME == __FILE__
  server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: ENV.fetch("PORT", "8080").to_i, AccessLog: [])
  server.mount_proc("/") do |request, response|
    check = request.path == "/service-signature" ? :verify_service_signature : :verify
    send(check, ENV.fetch("WEBHOOK_SECRET"), request, request.body.to_s.b)
    # Store the event under its webhook-id here, and work on it later. A known id is a repetition: answer 204 too.
    puts "accepted #{request["webhook-id"]}"
    response.status = 204
  rescue ArgumentError => error
    response.status = 401
    response.body = error.message
  end
  trap("TERM") { server.shutdown }
  server.start
end

package dedupe

// LeaseHaste is by how much leases are faster in tests.
const LeaseHaste = 4

// LeaseLife is how long a lease lasts in tests.
const LeaseLife = leaseLife / LeaseHaste

// Hasten makes the leases of a store faster. It must be called before the first.
func (r *Redis) Hasten() {
	r.times = leaseTimes{
		life: LeaseLife, renewal: leaseRenewal / LeaseHaste, look: leaseLook / LeaseHaste,
		member: memberLife / LeaseHaste, orphan: orphanLook / LeaseHaste,
	}
}

/*
 * The same model on ns-3's event core: one NIC, one ring of 512, NAPI with a device budget of 64, Poisson
 * arrivals, an event for everything that happens. It prints what it simulated, so that the benchmark can see
 * that both models agree before it compares their speed.
 *
 *   g++ -O3 -o napi napi.cc -lns3-core
 *   ./napi PPS SECONDS PACKET_NS ISR_NS WAKE_NS
 */
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "ns3/core-module.h"

using namespace ns3;

namespace {

class Router {
public:
	Router(double pps, double packet_ns, double isr_ns, double wake_ns)
	    : packet_(packet_ns), isr_(isr_ns), wake_(wake_ns), gap_(CreateObject<ExponentialRandomVariable>())
	{
		gap_->SetAttribute("Mean", DoubleValue(1e12 / pps));
	}

	void NextArrival()
	{
		Simulator::Schedule(PicoSeconds(static_cast<int64_t>(gap_->GetValue())), &Router::Arrive, this);
	}

	void Arrive()
	{
		arrived++;
		if (ring_.size() < kRing)
			ring_.push_back(Simulator::Now().GetPicoSeconds());
		else
			dropped++;
		if (!masked_) {
			masked_ = true;
			interrupts++;
			Simulator::Schedule(NanoSeconds(isr_ + wake_), &Router::Poll, this);
		}
		NextArrival();
	}

	void Poll()
	{
		left_ = kBudget;
		Serve();
	}

	void Serve()
	{
		if (ring_.empty()) {
			masked_ = false;
			return;
		}
		if (left_ == 0) {
			/* The only device: back to itself. */
			left_ = kBudget;
		}
		left_--;
		in_service_ = ring_.front();
		ring_.pop_front();
		Simulator::Schedule(NanoSeconds(packet_), &Router::Served, this);
	}

	void Served()
	{
		served++;
		latency_ps += static_cast<double>(Simulator::Now().GetPicoSeconds() - in_service_);
		Serve();
	}

	uint64_t arrived = 0, served = 0, dropped = 0, interrupts = 0;
	double latency_ps = 0;

private:
	static constexpr size_t kRing = 512;
	static constexpr int kBudget = 64;
	double packet_, isr_, wake_;
	Ptr<ExponentialRandomVariable> gap_;
	std::deque<int64_t> ring_;
	int64_t in_service_ = 0;
	int left_ = 0;
	bool masked_ = false;
};

} // namespace

int main(int argc, char **argv)
{
	if (argc != 6) {
		std::fprintf(stderr, "usage: napi PPS SECONDS PACKET_NS ISR_NS WAKE_NS\n");
		return 2;
	}
	Time::SetResolution(Time::PS);
	Router router(std::atof(argv[1]), std::atof(argv[3]), std::atof(argv[4]), std::atof(argv[5]));
	double seconds = std::atof(argv[2]);
	router.NextArrival();
	Simulator::Stop(PicoSeconds(static_cast<int64_t>(seconds * 1e12)));
	auto begin = std::chrono::steady_clock::now();
	Simulator::Run();
	std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
	std::printf("{\"packets\": %lu, \"wall_s\": %f, \"irq_per_s\": %f, \"latency_us\": %f}\n", router.arrived,
		    took.count(), router.interrupts / seconds, router.latency_ps / router.served / 1e6);
	Simulator::Destroy();
	return 0;
}
